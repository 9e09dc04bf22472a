"""What each part of the default detector is good for: it is measured without it, one part at a time.

Run: python -m evaluation.variants [--traces FOLDER] [--seed N] [--markdown]

The constants of ``chimbuko.ad.kernels.tail`` are compiled into it, so each variant is measured by a
process of its own, with a compiled copy of its own. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from chimbuko.ad.kernels import tail
from chimbuko.core.config import AnalysisConfig
from evaluation import measure, recorded
from evaluation.measure import Case, Measured
from evaluation.recorded import RecordedResult
from evaluation.scenarios import CLEAN, SCENARIOS, make_run
from evaluation.tables import ResultTable, number

VARIANTS: dict[str, dict[str, float]] = {
    "as it is": {},
    "anomalies take part in the fit": {"ROUNDS": 1},
    "same share of false flags for all functions": {"LOOSEST": 1.0},
    "one mode": {"GAP": 0.0},
    "fit over the whole mode": {"FEWEST_POINTS": tail.POINTS},
    "fit near the tail only": {"MORE_POINTS": tail.FEWEST_POINTS, "POINTS": tail.FEWEST_POINTS},
    "young functions like others": {"YOUNG_REACH": 0.0},
    "common from 1 in 500": {"COMMON_SHARE": 0.002},
    "common from 1 in 100": {"COMMON_SHARE": 0.01},
    "differences below 1 ms count": {"min_anomaly_us": 0},
}
STATISTICAL = ("gamma", "two modes 95/5")
TRACES = ("heat4", "threads", "heat4_clean")
AS_SOURCE = {"CHIMBUKO_KERNELS_AS": "jit"}
"""Environment in which kernels are compiled from modules that may have been changed before."""
SHARE = 0.25
"""Of the functions of a scenario."""


def changed(overrides: dict[str, float]) -> AnalysisConfig:
    """Change the detector of this process, before anything of it is compiled; returns the configuration."""
    settings = {name: value for name, value in overrides.items() if not name.isupper()}
    for name in overrides.keys() - settings.keys():
        setattr(tail, name, type(getattr(tail, name))(overrides[name]))
    return msgspec.convert(msgspec.to_builtins(AnalysisConfig()) | settings, AnalysisConfig)


def measure_variant(overrides: dict[str, float], traces: Path, seed: int) -> list[str]:
    """Cells of the variant's row."""
    config = changed(overrides)
    cases = [
        Case(name, variant, partial(make_run, SCENARIOS[name].scaled(SHARE), variant, seed), config)
        for name in STATISTICAL
        for variant in SCENARIOS[name].variants
    ]
    with ThreadPoolExecutor(1) as pool:
        cells = [cell for one in measure.measure(cases, pool) for cell in _statistical_cells(one)]
    with tempfile.TemporaryDirectory(prefix="chimbuko-traces-") as folder:
        found = {trace.name: trace for trace in recorded.unpack_traces(traces, Path(folder))}
        return cells + [_recorded_cell(recorded.measure(found[name], config)) for name in TRACES]


def columns() -> list[str]:
    """Of the table."""
    statistical = [
        title
        for name in STATISTICAL
        for variant in SCENARIOS[name].variants
        for title in (
            [f"{name}: false/100k"]
            if variant == CLEAN
            else [f"{name} {variant}: precision", "recall of clear delays"]
        )
    ]
    return ["variant", *statistical, *(f"{name}: found/flags" for name in TRACES)]


def measure_all(traces: Path, seed: int) -> Iterator[list[str]]:
    """One row per variant."""
    for name, overrides in VARIANTS.items():
        with tempfile.TemporaryDirectory(prefix="chimbuko-kernels-") as cache:
            command = [sys.executable, "-m", "evaluation.variants", "--overrides"]
            command += [json.dumps(overrides), "--traces", str(traces), "--seed", str(seed)]
            answer = subprocess.run(
                command,
                env=os.environ | AS_SOURCE | {"NUMBA_CACHE_DIR": cache},
                stdout=subprocess.PIPE,
                check=True,
            )
        yield [name, *json.loads(answer.stdout)]


def _statistical_cells(one: Measured) -> list[str]:
    if one.variant == CLEAN:
        return [number(one.score.false_per_100k, 1)]
    return [number(one.score.precision), number(one.score.clear_recall)]


def _recorded_cell(result: RecordedResult) -> str:
    return f"{result.found}/{result.flags}"


def main() -> None:
    """Measure all variants, or one in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, default=recorded.TRACES, help="folder with recorded traces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--overrides", type=json.loads, help="measure one variant, here")
    options = parser.parse_args()
    if options.overrides is not None:
        if AS_SOURCE.items() - os.environ.items() or "NUMBA_CACHE_DIR" not in os.environ:
            parser.error(
                f"--overrides needs {AS_SOURCE} and a NUMBA_CACHE_DIR of its own: "
                "kernels are compiled with their constants"
            )
        print(json.dumps(measure_variant(options.overrides, options.traces, options.seed)))
        return
    rows = list(measure_all(options.traces, options.seed))
    table = ResultTable("The default detector, changed in one place", columns(), rows)
    print(table.markdown() if options.markdown else table.text())


if __name__ == "__main__":
    main()
