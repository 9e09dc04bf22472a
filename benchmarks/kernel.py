"""The loop that every row goes through, beside the same loop in C, a plain copy, and plain Python.

Run: python benchmarks/kernel.py [--rounds N] [--quick] [--json]

The loop validates the rows of a step, rebuilds call stacks, attaches messages and counter values, and
updates the moments of exclusive and inclusive runtimes. Its twin in C (kernel_twin.c) is compiled on the
spot with gcc -O3 -march=native, does the same work, and must get the same result. The variants take
turns in each round: rely on the ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from generate import HARD, SIMPLE, Shape, SyntheticTrace, steps_of
from measuring import cpu_seconds, median_ratio, table
from naive import NaiveAnalysis

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import label
from chimbuko.ad.kernels.stack import CALL
from chimbuko.core.arrays import UInt64Array
from chimbuko.core.statistics.moments import EMPTY
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.traceschema import StreamNames, TraceStep

SOURCE = Path(__file__).with_name("kernel_twin.c")
ROWS = 2_000_000
"""100 MB at least go through each variant: more than the caches hold."""
NAIVE_ROWS = 100_000
MOMENTS_TOLERANCE = 1e-6
"""Relative: compilers round in different order, and third powers cancel."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    rows_per_step: int
    shape: Shape = SIMPLE

    def __str__(self) -> str:
        shape = self.shape
        text = f"{shape.functions:,} / {shape.threads} / {self.rows_per_step:,}"
        return f"{text}, depth {shape.depth}, recursion" if shape == HARD else text


CASES = [
    Case(100_000),
    Case(1_000_000),
    Case(1_000_000, Shape(threads=32)),
    Case(100_000, Shape(functions=5_000)),
    Case(5_000_000, Shape(functions=5_000, threads=32)),
    Case(100_000, HARD),
]
QUICK_CASES = [CASES[0], CASES[-1]]


@dataclass
class Result:
    """Rates in million rows per CPU-second, one per round."""

    case: Case
    kernel: list[float] = field(default_factory=list)
    c: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    naive: list[float] = field(default_factory=list)


class Kernel:
    """Ours."""

    def __init__(self, names: StreamNames) -> None:
        self._names = names
        self.stacks = CallStacks(rank=0)
        self.profiles = PROFILE.empty(2 * len(names.timers))
        self._extremes = np.tile([np.inf, -np.inf], (len(self.profiles), 1))
        self.completed = 0

    def analyse(self, step: TraceStep) -> None:
        """One step."""
        stacks = self.stacks
        stacks.build(step, self._names)
        self.completed += label.learn(
            stacks.calls,
            stacks.count,
            stacks.is_named,
            False,
            label.NO_BUCKETS,
            self.profiles,
            self._extremes,
        )


class TwinState(ctypes.Structure):
    """``State`` of the C source."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("calls", "messages", "values", "threads", "profiles")),
        *((name, ctypes.c_void_p) for name in ("seen", "is_mpi", "is_named")),
        *((name, ctypes.c_uint64) for name in ("rank", "thread_count", "timers")),
        *((name, ctypes.c_int64) for name in ("count", "completed")),
    ]


TWIN_POINT = np.dtype([("next", np.int32), ("call", np.int32)])
TWIN_THREAD = np.dtype(
    [(name, np.uint64) for name in ("last_time", "point_time", "tie_time")]
    + [(name, np.int32) for name in ("top", "message", "value", "tie_call", "tie_mpi")],
    align=True,
)


class CTwin:
    """The same in C. Parameters as for ``Kernel``, and the compiled twin and the room it needs."""

    def __init__(self, library: ctypes.CDLL, names: StreamNames, threads: int, largest: TraceStep) -> None:
        self._library = library
        timers = len(names.timers)
        calls = len(largest.events) + threads * 100
        self._arrays = {
            "calls": np.zeros(calls, CALL),
            "messages": np.zeros(len(largest.comms), TWIN_POINT),
            "values": np.zeros(len(largest.counters), TWIN_POINT),
            "threads": np.zeros(threads, TWIN_THREAD),
            "profiles": np.tile(EMPTY, (timers, 2)),
            "seen": np.zeros((threads, timers), np.uint8),
            "is_mpi": np.zeros(timers, np.uint8),
            "is_named": np.ones(timers, np.uint8),
        }
        for name in ("top", "message", "value", "tie_call", "tie_mpi"):
            self._arrays["threads"][name] = -1
        self._state = TwinState(
            **{name: array.ctypes.data for name, array in self._arrays.items()},
            rank=0,
            thread_count=threads,
            timers=timers,
        )
        self.completed = 0

    def analyse(self, step: TraceStep) -> None:
        """One step."""
        damaged = self._library.analyse_step(
            ctypes.byref(self._state),
            *(x for rows in arrays_of(step) for x in (_address(rows), ctypes.c_int64(len(rows)))),
            ctypes.c_int32(step.step),
        )
        assert not damaged
        self.completed += self._state.completed

    def check(self, kernel: Kernel, step: TraceStep) -> None:
        """Assert that both got the same; ``step`` was the last one."""
        count = self._state.count
        assert (self.completed, count) == (kernel.completed, kernel.stacks.count)
        ours, its = kernel.stacks.calls[:count], self._arrays["calls"][:count]
        for name in set(CALL.names or ()) - {"thread"}:
            assert np.array_equal(its[name], ours[name]), name
        assert np.array_equal(its["thread"], kernel.stacks.threads["id"][ours["thread"]])
        for name, attached in (
            ("messages", kernel.stacks.message_calls),
            ("values", kernel.stacks.counter_calls),
        ):
            assert np.array_equal(self._arrays[name]["call"][: len(attached)], attached), name
        mine = self._arrays["profiles"]
        for moments in ("exclusive_us", "inclusive_us"):
            at = PROFILE.slices[moments]
            its = kernel.profiles[: len(mine), at]
            assert np.array_equal(mine[:, at][:, [0, 5, 6]], its[:, [0, 5, 6]])
            scale = np.abs(its).max(axis=0)
            assert np.allclose(
                mine[:, at][:, 1:5] / scale[1:5], its[:, 1:5] / scale[1:5], atol=MOMENTS_TOLERANCE
            )


def _address(array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def arrays_of(step: TraceStep) -> tuple[UInt64Array, ...]:
    """All that a step brings."""
    return step.events, step.comms, step.counters


def compiled_twin(folder: Path) -> ctypes.CDLL:
    """Compile the twin into ``folder`` and load it; ends the program where there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        sys.exit("benchmarks/kernel.py: no gcc to compile kernel_twin.c with; install the package gcc")
    library = folder / "kernel_twin.so"
    flags = ["-O3", "-march=native", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return ctypes.CDLL(str(library))


class Workload:
    """Steps in memory, and how fast each variant goes through them, in million rows per CPU-second."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._trace = SyntheticTrace(case.rows_per_step, shape=case.shape)
        self._first, *self._steps = steps_of(self._trace, 1 + max(ROWS // case.rows_per_step, 1))
        self._into = [np.ones_like(array) for array in arrays_of(self._first)]

    def kernel(self) -> Kernel:
        """Ours, which has not seen a step."""
        return Kernel(self._trace.names)

    def c_twin(self, library: ctypes.CDLL) -> CTwin:
        """The one in C, which has not seen a step."""
        return CTwin(library, self._trace.names, self._case.shape.threads, self._first)

    def rate(self, analysis: Kernel | CTwin) -> float:
        """Of an analysis; in the first step, which is not measured, memory is touched for the first time."""
        analysis.analyse(self._first)
        return self._rate(cpu_seconds(lambda: [analysis.analyse(step) for step in self._steps]))

    def copy_rate(self) -> float:
        """Of a plain copy into memory that is reused."""

        def copy() -> None:
            for step in self._steps:
                for array, target in zip(arrays_of(step), self._into, strict=True):
                    np.copyto(target, array)

        return self._rate(cpu_seconds(copy))

    def naive_rate(self) -> float:
        """Of the analysis in plain Python."""
        trace = SyntheticTrace(NAIVE_ROWS, shape=self._case.shape)
        step, analysis = trace.next_step(), NaiveAnalysis(trace.names)
        return NAIVE_ROWS / cpu_seconds(lambda: analysis.analyse(step)) / 1e6

    def check(self, twin: CTwin, kernel: Kernel) -> None:
        """Assert that both got the same."""
        twin.check(kernel, self._steps[-1])

    def _rate(self, cpu_s: float) -> float:
        return len(self._steps) * self._case.rows_per_step / cpu_s / 1e6


def measure(case: Case, rounds: int, library: ctypes.CDLL) -> Result:
    """Measure one case."""
    work = Workload(case)
    result = Result(case)
    for _ in range(rounds):
        kernel, twin = work.kernel(), work.c_twin(library)
        result.c.append(work.rate(twin))
        result.kernel.append(work.rate(kernel))
        result.copy.append(work.copy_rate())
        result.naive.append(work.naive_rate())
        work.check(twin, kernel)
    return result


def as_table(results: list[Result]) -> str:
    """Medians of the rates and of the ratios."""
    heads = ("functions / threads / rows per step", "kernel", "C", "copy", "naive", "kernel/C", "kernel/copy")
    rows = [
        (
            str(r.case),
            *(f"{statistics.median(rates):.0f}" for rates in (r.kernel, r.c, r.copy)),
            f"{statistics.median(r.naive):.2f}",
            f"{median_ratio(r.kernel, r.c):.2f}",
            f"{median_ratio(r.kernel, r.copy):.2f}",
            f"{median_ratio(r.kernel, r.naive):.0f}",
        )
        for r in results
    ]
    return table((*heads, "kernel/naive"), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="only the simple and the hard case")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_twin(Path(folder))
        cases = QUICK_CASES if options.quick else CASES
        results = [measure(case, options.rounds, library) for case in cases]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("Million rows per CPU-second, median of the rounds; ratios are medians of each round's ratio")
        print(as_table(results))


if __name__ == "__main__":
    main()
