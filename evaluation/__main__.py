"""Detection quality: precision, recall and F1 per detector and scenario, against known truth.

Run: python -m evaluation [--detectors NAME ...] [--scenarios NAME ...] [--seeds N ...]
     python -m evaluation --traces FOLDER --explain --parts recorded
     python -m evaluation --parts causes

Without options: the default detector in all scenarios, seeds 1 to 5, on the recorded trace of the tests,
in real runs, through annotations alone, and MPI programs with known causes, five times each. Exit code 1 if
the default detector misses one of its requirements.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from chimbuko.core.config import DETECTORS, AnalysisConfig
from evaluation import (
    annotated,
    causes,
    comparison,
    gpu,
    incidents,
    measure,
    prior,
    processes,
    recorded,
    recurring,
    requirements,
)
from evaluation.annotated import AnnotatedResult
from evaluation.causes import CauseResult
from evaluation.gpu import PairResult
from evaluation.injections import INJECTED, INJECTIONS
from evaluation.measure import Case, Measured
from evaluation.prior import PriorResult
from evaluation.processes import LiveResult
from evaluation.recorded import RecordedResult
from evaluation.recurring import Reported
from evaluation.requirements import Requirement
from evaluation.scenarios import SCENARIOS, make_run
from evaluation.tables import ResultTable

DEFAULT = AnalysisConfig()
SEEDS = (1, 2, 3, 4, 5)
QUICK_SHARE = 0.25
"""Of the functions of each scenario."""
STATISTICAL, RECORDED, PRIOR, PAIRS = "statistical", "recorded", "prior", "pairs"
RECURRING, REAL, ANNOTATED, CAUSES = "recurring", "real", "annotated", "causes"
ALL = "all"
PARTS = (STATISTICAL, INJECTED, RECORDED, PRIOR, PAIRS, RECURRING, REAL, ANNOTATED, CAUSES)
LONG = (REAL, ANNOTATED, CAUSES)
"""Programs really run."""


@dataclass
class Report:
    """Everything that was measured."""

    measured: dict[str, list[Measured]] = field(default_factory=dict)
    recorded: list[RecordedResult] = field(default_factory=list)
    prior: list[PriorResult] = field(default_factory=list)
    pairs: list[PairResult] = field(default_factory=list)
    recurring: list[Reported] = field(default_factory=list)
    real: list[LiveResult] = field(default_factory=list)
    annotated: list[AnnotatedResult] = field(default_factory=list)
    causes: list[CauseResult] = field(default_factory=list)

    def required(self) -> list[Requirement]:
        """What the default detector reached of what it has to."""
        found = []
        for results in self.measured.values():
            if own := [one for one in results if one.detector == DEFAULT.detector]:
                found += requirements.labelled(own)
        own_recorded = [one for one in self.recorded if one.detector == DEFAULT.detector]
        found += requirements.recorded(own_recorded) + requirements.prior(self.prior)
        found += requirements.pairs(self.pairs)
        found += requirements.recurring(self.recurring)
        found += requirements.real(self.real) + requirements.annotated(self.annotated)
        return found + requirements.causes(self.causes)

    def tables(self, is_explaining: bool) -> Iterator[ResultTable]:
        """For people."""
        for part, results in self.measured.items():
            yield measure.table(f"{part.capitalize()} scenarios", results)
            if len({result.detector for result in results}) > 1:
                yield comparison.table(results)
        if self.recorded:
            yield recorded.table(self.recorded)
            yield incidents.table((one.trace, one.detector, one.incidents) for one in self.recorded)
        if self.prior:
            yield prior.table(self.prior)
        if self.pairs:
            yield gpu.table(self.pairs)
        if self.recurring:
            yield recurring.table(self.recurring)
        if self.real:
            yield processes.table(self.real)
        if self.annotated:
            yield annotated.table(self.annotated)
        if self.causes:
            yield causes.table(self.causes)
        if is_explaining:
            for result in self.recorded:
                yield from recorded.explanation(result)
        yield requirements.table(self.required())

    def as_json(self) -> str:
        """For programs."""
        answer = {part: [one.as_json() for one in results] for part, results in self.measured.items()}
        answer[RECORDED] = [one.as_json() for one in self.recorded]
        answer[PRIOR] = [one.as_json() for one in self.prior]
        answer[PAIRS] = [one.as_json() for one in self.pairs]
        answer[RECURRING] = [asdict(one) for one in self.recurring]
        answer[REAL] = [one.as_json() for one in self.real]
        answer[ANNOTATED] = [one.as_json() for one in self.annotated]
        answer[CAUSES] = [one.as_json() for one in self.causes]
        required = [asdict(one) | {"is_met": one.is_met} for one in self.required()]
        return json.dumps(answer | {"required": required}, indent=1)


def main() -> int:
    """Measure and judge."""
    options = _options()
    report = Report()
    configs = [msgspec.structs.replace(DEFAULT, detector=name) for name in options.detectors]
    cases = {STATISTICAL: _statistical(configs, options), INJECTED: _injected(configs, options)}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for part in options.parts:
            if part == RECORDED:
                report.recorded = _recorded(configs, options.traces, pool)
            elif part == PRIOR:
                report.prior = _prior(options.traces)
            elif part == PAIRS:
                report.pairs = [gpu.measure(order) for order in gpu.ORDERS]
            elif part == RECURRING:
                report.recurring = list(pool.map(recurring.measure, INJECTIONS))
            elif part == REAL:
                report.real = _real()
            elif part == ANNOTATED:
                report.annotated = [annotated.measure(name) for name in processes.PROGRAMS]
            elif part == CAUSES:
                report.causes = list(causes.measure())
            else:
                report.measured[part] = list(measure.measure(cases[part], pool))
    if options.json:
        print(report.as_json())
    else:
        for table in report.tables(options.explain):
            print(table.markdown() if options.markdown else table.text(), end="\n\n")
    return 0 if all(one.is_held for one in report.required()) else 1


def _statistical(configs: list[AnalysisConfig], options: argparse.Namespace) -> list[Case]:
    return [
        Case(
            name,
            variant,
            partial(make_run, scenario.scaled(QUICK_SHARE) if options.quick else scenario, variant, seed),
            config,
        )
        for config in configs
        for name, scenario in SCENARIOS.items()
        if name in options.scenarios
        for variant in scenario.variants
        for seed in options.seeds
    ]


def _injected(configs: list[AnalysisConfig], options: argparse.Namespace) -> list[Case]:
    return [
        Case(name, INJECTED, partial(make, seed), config)
        for config in configs
        for name, make in INJECTIONS.items()
        if name in options.scenarios
        for seed in options.seeds
    ]


def _recorded(configs: list[AnalysisConfig], archives: Path, pool: Executor) -> list[RecordedResult]:
    with tempfile.TemporaryDirectory(prefix="chimbuko-traces-") as folder:
        traces = list(recorded.unpack_traces(archives, Path(folder)))
        pending = [pool.submit(recorded.measure, trace, config) for config in configs for trace in traces]
        return [one.result() for one in pending]


def _prior(archives: Path) -> list[PriorResult]:
    with tempfile.TemporaryDirectory(prefix="chimbuko-traces-") as folder:
        return list(prior.measure(list(recorded.unpack_traces(archives, Path(folder))), DEFAULT))


def _real() -> list[LiveResult]:
    with tempfile.TemporaryDirectory(prefix="chimbuko-traces-") as folder:
        traces = recorded.unpack_traces(recorded.TRACES, Path(folder))
        replays = [processes.measure_replay(trace) for trace in traces]
        return [processes.measure(name) for name in processes.PROGRAMS] + replays


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*SCENARIOS, *INJECTIONS]
    parser.add_argument("--detectors", nargs="+", default=[DEFAULT.detector], choices=[*DETECTORS, ALL])
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    parser.add_argument("--scenarios", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, metavar="N")
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the functions, first seed only, no real runs"
    )
    parser.add_argument(
        "--traces", type=Path, default=recorded.TRACES, help="folder with archives of recorded traces"
    )
    parser.add_argument("--explain", action="store_true", help="list the flags that are no injected delay")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if ALL in options.detectors:
        options.detectors = list(DETECTORS)
    if options.parts is None:
        options.parts = [part for part in PARTS if part not in LONG or not options.quick]
    if options.quick:
        options.seeds = options.seeds[:1]
    if {RECORDED, PRIOR}.intersection(options.parts) and not any(options.traces.glob(recorded.ARCHIVES)):
        parser.error(
            f"--traces {options.traces}: no archives of recorded traces ({recorded.ARCHIVES}) are there; "
            "pack each folder of streams into one"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
