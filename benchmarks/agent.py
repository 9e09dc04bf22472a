"""Rows per CPU-second of the analysis of one stream: read, stack, statistics, detect, select, spool.

Run: python benchmarks/agent.py [--rows N] [--rows-per-step N ...] [--source files sst recorded] [--rounds N]
     [--hard] [--stages] [--json]

The real process of a stream, forked as the fork server does, reads a recorded BP5 file, or follows a copy
of it and gives it back, or reads over SST what another process writes. CPU time is that of this one process,
with the threads that receive. The figures drift with what else the machine does, so a plain copy of the same
arrays, the loop in C, and the same analysis in straightforward Python are measured in the same rounds: rely
on the ratios.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from generate import HARD, OUTLIER_SHARE, SIMPLE, Shape, SyntheticTrace, write_trace
from kernel import Case as KernelCase
from kernel import Workload, compiled_twin
from measuring import median_ratio, table
from streams import STAGES, Analysed, analyse, be_fork_server, flagged_calls, live_writer, spec_of

from chimbuko.capture.trace.discovery import Transport

ROWS_PER_STEP = (10_000, 100_000, 200_000, 500_000)


@dataclass(frozen=True)
class Case:
    """What is analysed."""

    transport: Transport
    rows_per_step: int
    shape: Shape


@dataclass
class Result:
    """What was measured in one case; rates are million rows per CPU-second, one per round."""

    case: Case
    steps: int
    injected: int = 0
    agent: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    c: list[float] = field(default_factory=list)
    naive: list[float] = field(default_factory=list)
    flagged: int = 0
    found: int = 0
    stages_us_per_step: dict[str, float] = field(default_factory=dict)


class Bench:
    """Runs the cases; traces are kept in ``folder``."""

    def __init__(self, folder: Path, rows: int, outliers: float) -> None:
        self._folder = folder
        self._rows = rows
        self._outliers = outliers
        self._library = compiled_twin(folder)
        self._runs = 0

    def measure(self, case: Case, rounds: int, with_stages: bool) -> Result:
        """Measure one case."""
        trace = SyntheticTrace(case.rows_per_step, outlier_share=self._outliers, shape=case.shape)
        steps = max(self._rows // case.rows_per_step, 1)
        path = self._folder / f"{case.rows_per_step}-{case.shape.threads}.bp"
        injected = write_trace(path, trace, steps, "BP5")
        work = Workload(KernelCase(case.rows_per_step, case.shape))
        result = Result(case, steps, len(injected))
        for _ in range(rounds):
            analysed, flagged = self._analyse(case, path, steps)
            result.agent.append(steps * case.rows_per_step / analysed.cpu_s / 1e6)
            result.c.append(work.rate(work.c_twin(self._library)))
            result.copy.append(work.copy_rate())
            result.naive.append(work.naive_rate())
            result.flagged, result.found = len(flagged), len(flagged & injected)
        if with_stages:
            analysed, _ = self._analyse(case, path, steps, with_stages=True)
            result.stages_us_per_step = {
                name: 1e6 * seconds / steps for name, seconds in analysed.stages_s.items()
            }
        shutil.rmtree(path)
        return result

    def _analyse(
        self, case: Case, path: Path, steps: int, *, with_stages: bool = False
    ) -> tuple[Analysed, set[str]]:
        """Run the process of a stream: what it took, and ids of the calls that it flagged."""
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        is_joined = case.transport is Transport.SST
        source = path if case.transport is Transport.RECORDED else folder / "live.bp"
        if case.transport is Transport.FILES:
            # Its space is given back behind the reader.
            shutil.copytree(path, source)
        writer = live_writer(source, case.rows_per_step, steps, case.shape, self._outliers)
        with writer if is_joined else nullcontext():
            analysed = analyse(spec_of(source, case.transport, folder), with_stages=with_stages)
        flagged = flagged_calls(folder)
        shutil.rmtree(folder)
        return analysed, flagged


def as_table(results: list[Result]) -> str:
    """Medians of the rates and of the ratios."""
    heads = (
        "source",
        "rows/step",
        "agent",
        "best",
        "C",
        "copy",
        "naive",
        "agent/C",
        "agent/copy",
        "agent/naive",
    )
    rows = [
        (
            r.case.transport.value,
            f"{r.case.rows_per_step:,}" + (", hard" if r.case.shape == HARD else ""),
            f"{statistics.median(r.agent):.1f}",
            f"{max(r.agent):.1f}",
            *(f"{statistics.median(rates):.0f}" for rates in (r.c, r.copy)),
            f"{statistics.median(r.naive):.2f}",
            *(f"{median_ratio(r.agent, rates):.2f}" for rates in (r.c, r.copy)),
            f"{median_ratio(r.agent, r.naive):.0f}",
            f"{r.found:,}/{r.injected:,}/{r.flagged:,}",
        )
        for r in results
    ]
    return table((*heads, "found/injected/flagged"), rows)


def stages_table(results: list[Result]) -> str:
    """CPU time of the main thread per step in µs; what receives over SST are other threads."""
    names = (*STAGES, "other")
    rows = [
        (
            r.case.transport.value,
            f"{r.case.rows_per_step:,}" + (", hard" if r.case.shape == HARD else ""),
            *(f"{r.stages_us_per_step.get(name, 0.0):,.0f}" for name in names),
        )
        for r in results
    ]
    return table(("source", "rows/step", *names), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rows-per-step", type=int, nargs="+", default=ROWS_PER_STEP)
    parser.add_argument(
        "--source", nargs="+", type=Transport, default=list(Transport), choices=list(Transport)
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--outliers", type=float, default=OUTLIER_SHARE, help="share of abnormal calls")
    parser.add_argument(
        "--hard", action="store_true", help="32 threads, 5,000 functions, depth 60, recursion"
    )
    parser.add_argument("--stages", action="store_true", help="also the CPU time of each stage")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    be_fork_server()
    shape = HARD if options.hard else SIMPLE
    cases = [Case(source, rows, shape) for source in options.source for rows in options.rows_per_step]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.rows, options.outliers)
        results = [bench.measure(case, options.rounds, options.stages) for case in cases]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
        return
    print("Million rows per CPU-second, median of the rounds; ratios are medians of each round's ratio")
    print(as_table(results))
    if options.stages:
        print("\nCPU time of the main thread in µs per step")
        print(stages_table(results))


if __name__ == "__main__":
    main()
