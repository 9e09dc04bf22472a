"""Functions around the calls of MPI, in programs that were compiled without hooks."""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from pathlib import Path

import pytest

from chimbuko.core.traceschema import EventType
from chimbuko.instrument.recorder.library import INCLUDE
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import Stream, record

PROGRAM = Path(__file__).with_name("programs") / "callers.c"
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="callers of MPI are found on x86-64 only"
)

STEPS = 20
NESTING = {
    (".TAU application", "main"): 1,
    ("main", "iterate"): 2,
    ("iterate", "exchange"): 2 * STEPS,
    ("exchange", "MPI_Irecv()"): 2 * STEPS,
    ("exchange", "MPI_Waitall()"): 2 * STEPS,
    ("iterate", "sum"): 2 * STEPS // 5,
    ("iterate", "shift"): 2 * STEPS // 10,
    ("shift", "MPI_Sendrecv_replace()"): 3 * 2 * STEPS // 10,
    ("shift", "MPI_Barrier()"): 2 * STEPS // 10,
    ("compare", "sum"): 1,
    ("main", "descend"): 1,
    ("descend", "descend"): 3,
    ("descend", "sum"): 1,
    ("main", "leave"): 1,
    ("leave", "sum"): 1,
    ("main", "solve"): 1,
    ("solve", "MPI_Irecv()"): 1,
    ("main", "MPI_Barrier()"): 1,
    ("main", "MPI_Finalize()"): 1,
}


def built(folder: Path, compiler: str, *flags: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: apt-get install {compiler}")
    return WHEEL.build(PROGRAM, folder / "callers", "mpicc", f"-cc={compiler}", f"-I{INCLUDE}", *flags)


def inclusive_us(stream: Stream, name: str) -> list[tuple[int, int]]:
    """Beginning and end of each call of a function, in order of the ends."""
    open_us: list[int] = []
    found = []
    for row in stream.events.tolist():
        if stream.function(row[4]) == name:
            if row[3] == EventType.ENTRY:
                open_us.append(row[5])
            else:
                found.append((open_us.pop(), row[5]))
    return found


@pytest.mark.parametrize(("compiler", "flags"), [("gcc", "-O2"), ("gcc", "-O0"), ("clang", "-O2")])
def test_functions_around_mpi_are_the_calls_that_the_program_made(
    tmp_path: Path, compiler: str, flags: str
) -> None:
    program = built(tmp_path, compiler, flags)
    for stream in record(tmp_path, [program, str(STEPS)], WHEEL.launch(2)):
        nesting = Counter(stream.nesting())
        assert {pair: nesting[pair] for pair in NESTING} == NESTING
        # The first and the last call of MPI in a function are its beginning and its end.
        (waits, calls) = (inclusive_us(stream, name) for name in ("MPI_Waitall()", "exchange"))
        assert [end for _, end in calls] == [end for _, end in waits[: len(calls)]]
        assert "found on the stack" in stream.metadata("Callers of MPI")


def test_a_program_with_hooks_is_not_looked_at(tmp_path: Path) -> None:
    program = built(tmp_path, "gcc", "-O2", "-finstrument-functions")
    for stream in record(tmp_path, [program, str(STEPS)], WHEEL.launch(2)):
        assert stream.metadata("Callers of MPI") == ""
        assert stream.nesting()["iterate", "exchange"] == 2 * STEPS


def test_what_costs_more_than_the_budget_is_said_and_calls_stay(tmp_path: Path) -> None:
    program = built(tmp_path, "gcc", "-O2")
    # 90,000 functions in a moment, around 3,000 calls.
    for stream in record(tmp_path, [program, str(STEPS), "3000"], WHEEL.launch(2)):
        calls = stream.calls()
        assert calls["MPI_Allreduce()"] > 3000 and 4 + 30 <= calls["descend"] < 60_000
        assert "calls, as the recorder's budget is 2.00%" in stream.metadata("Callers of MPI")
