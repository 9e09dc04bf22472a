"""Rows per CPU-second of the analysis of one stream: read, stack, statistics, detect, select, spool.

Run: python benchmarks/agent.py [--rows N] [--rows-per-step N ...] [--rounds N] [--stages] [--json]

The real process of a stream, run here on a BP5 file with a known set of abnormal calls. The figures
drift with what else the machine does, so a plain copy of the same arrays and the same analysis in
straightforward Python are measured in the same rounds: rely on the ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from generate import OUTLIER_SHARE, SyntheticTrace, steps_of, write_trace
from naive import NaiveAnalysis

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.child import ChildSpec, StreamChild
from chimbuko.ad.exchange import ExchangeBox
from chimbuko.ad.kernels import judge
from chimbuko.ad.spool import SpoolReader, SpoolWriter
from chimbuko.ad.stacks import CallStacks
from chimbuko.ad.warmup import warm_kernels
from chimbuko.ad.windows import Windows
from chimbuko.config import AnalysisConfig
from chimbuko.messages import RecordBatch
from chimbuko.records import call_id
from chimbuko.trace.reader import StreamReader
from chimbuko.trace.schema import TraceStep, UInt64Array

NAIVE_ROWS = 200_000
COPIED_ROWS = 2_000_000
"""100 MB: more than the caches hold, since a stream's rows do not come from them either."""
STAGES: dict[str, tuple[Any, str]] = {
    "read": (StreamReader, "next_step"),
    "stacks": (CallStacks, "build"),
    "learn": (judge, "learn"),
    "detect": (StreamAnalysis, "_select"),
    "records": (Windows, "step"),
    "spool": (SpoolWriter, "append"),
    "exchange": (ExchangeBox, "exchange"),
}


@dataclass
class Result:
    """What was measured at one number of rows per step; rates are million rows per CPU-second."""

    rows_per_step: int
    steps: int
    injected: int
    agent: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    naive: list[float] = field(default_factory=list)
    flagged: int = 0
    found: int = 0
    stages_us_per_step: dict[str, float] = field(default_factory=dict)

    def ratio(self, other: list[float]) -> float:
        """Median over the rounds of the agent's rate to another."""
        return statistics.median(mine / its for mine, its in zip(self.agent, other, strict=True))


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU time of this process, all its threads, in ``work``."""
    began = time.process_time()
    work()
    return time.process_time() - began


def analyse_stream(trace: Path, folder: Path) -> tuple[float, set[str]]:
    """Run the whole process of one stream in this one: CPU seconds, and ids of the flagged calls."""
    spec = ChildSpec(
        key="0:0",
        path=str(trace),
        engine="BPFile",
        program=0,
        rank=0,
        node="node",
        box=str(folder / "box"),
        spool=str(folder / "spool"),
        names=str(folder / "names"),
        config=AnalysisConfig(),
    )
    seconds = cpu_seconds(lambda: StreamChild(spec).run())
    decoder = msgspec.msgpack.Decoder(RecordBatch)
    frames = SpoolReader(folder / "spool").read(1 << 62)
    heads = np.concatenate([decoder.decode(frame).records.head_rows() for _, frame in frames])
    abnormal = heads[heads["is_anomaly"] != 0]
    places = zip(abnormal["begin_step"].tolist(), abnormal["begin_row"].tolist(), strict=True)
    return seconds, {call_id(0, 0, step, row) for step, row in places}


def arrays_of(step: TraceStep) -> tuple[UInt64Array, ...]:
    """All that a step brings."""
    return step.events, step.comms, step.counters


def copy_rate(rows_per_step: int) -> float:
    """Million rows per CPU-second of a plain copy of the same arrays into memory that is reused."""
    trace = SyntheticTrace(rows_per_step)
    steps = list(steps_of(trace, max(COPIED_ROWS // rows_per_step, 1)))
    into = [np.ones_like(array) for array in arrays_of(steps[0])]

    def copy() -> None:
        for step in steps:
            for array, target in zip(arrays_of(step), into, strict=True):
                np.copyto(target, array)

    return len(steps) * rows_per_step / cpu_seconds(copy) / 1e6


def naive_rate(rows_per_step: int) -> float:
    """Million rows per CPU-second of the analysis in straightforward Python."""
    trace = SyntheticTrace(rows_per_step)
    steps = list(steps_of(trace, max(NAIVE_ROWS // rows_per_step, 1)))
    analysis = NaiveAnalysis(trace.names)
    seconds = cpu_seconds(lambda: [analysis.analyse(step) for step in steps])
    return len(steps) * rows_per_step / seconds / 1e6


def stage_times(trace: Path, folder: Path, steps: int) -> dict[str, float]:
    """CPU time of each stage in µs per step, from a run of its own with a clock around each."""
    spent: Counter[str] = Counter()

    def clocked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.process_time() - began

        return call

    with ExitStack() as patches:
        for name, (owner, attribute) in STAGES.items():
            clock = clocked(name, getattr(owner, attribute))
            patches.enter_context(patch.object(owner, attribute, clock))
        seconds, _ = analyse_stream(trace, folder)
    spent["other"] = seconds - spent.total()
    return {name: 1e6 * spent[name] / steps for name in [*STAGES, "other"]}


def measure(rows: int, rows_per_step: int, rounds: int, outliers: float, with_stages: bool) -> Result:
    """Measure at one number of rows per step."""
    steps = max(rows // rows_per_step, 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trace = folder / "trace.bp"
        injected = write_trace(trace, SyntheticTrace(rows_per_step, outlier_share=outliers), steps)
        result = Result(rows_per_step, steps, len(injected))
        for number in range(rounds):
            work = folder / str(number)
            work.mkdir()
            seconds, flagged = analyse_stream(trace, work)
            result.agent.append(steps * rows_per_step / seconds / 1e6)
            result.copy.append(copy_rate(rows_per_step))
            result.naive.append(naive_rate(rows_per_step))
            result.flagged, result.found = len(flagged), len(flagged & injected)
        if with_stages:
            (folder / "stages").mkdir()
            result.stages_us_per_step = stage_times(trace, folder / "stages", steps)
    return result


def print_tables(results: list[Result]) -> None:
    """As a table, and one of the stages where they were measured."""
    heads = ("rows/step", "agent", "best", "copy", "agent/copy", "naive", "agent/naive")
    rows = [
        (
            f"{r.rows_per_step:,}",
            f"{statistics.median(r.agent):.1f}",
            f"{max(r.agent):.1f}",
            f"{statistics.median(r.copy):.0f}",
            f"{r.ratio(r.copy):.2f}",
            f"{statistics.median(r.naive):.2f}",
            f"{r.ratio(r.naive):.0f}",
            f"{r.found:,}/{r.injected:,}/{r.flagged:,}",
        )
        for r in results
    ]
    print("Million rows per CPU-second, median of the rounds")
    print_table((*heads, "found/injected/flagged"), rows)
    if results[0].stages_us_per_step:
        print("\nCPU time per step in µs")
        stages = results[0].stages_us_per_step
        print_table(
            ("rows/step", *stages),
            [
                (f"{r.rows_per_step:,}", *(f"{r.stages_us_per_step[name]:,.0f}" for name in stages))
                for r in results
            ],
        )


def print_table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns to the right."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rows-per-step", type=int, nargs="+", default=[10_000, 100_000, 200_000, 500_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--outliers", type=float, default=OUTLIER_SHARE, help="share of abnormal calls")
    parser.add_argument("--stages", action="store_true", help="also the CPU time of each stage")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    warm_kernels()
    # As the fork server does before it makes the processes of streams.
    gc.collect()
    gc.freeze()
    results = [
        measure(options.rows, rows_per_step, options.rounds, options.outliers, options.stages)
        for rows_per_step in options.rows_per_step
    ]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print_tables(results)


if __name__ == "__main__":
    main()
