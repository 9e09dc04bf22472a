"""A Python program with MPI: its calls of MPI stand inside of its functions, in one stream for each rank."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from chimbuko.core.sourcecensus import CALLS_SEEN, parse_census
from chimbuko.core.traceschema import ENDING, EVENT_TIMER, EVENT_TYPE, NOT_RECORDED, EventType
from tests.instrument.recorder.mpi import OPEN_MPI, WHEEL, WHEELS, Mpi, why_missing
from tests.instrument.recorder.streams import Stream, record

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="no mpi4py: pip install 'mpi4py>=4.1'"
)

TURNS = 20
THREADS = 3
TAG = 7
LIBRARIES = {WHEEL: str(WHEELS.parent / "lib" / "libmpi.so.12"), OPEN_MPI: "libmpi.so.40"}
"""Which library of MPI mpi4py is to take, of those that it knows."""

PROGRAM = f"""
import glob, os, sys, threading, time
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
partner = 1 - world.rank
one, total = np.ones(1), np.zeros(1)

def add(left, right, datatype):
    np.frombuffer(right)[:] += np.frombuffer(left)

def combine():
    world.Allreduce(one, total, op)

def swap():
    world.Sendrecv(one, partner, {TAG}, total, partner, {TAG})

def of_thread():
    world.Barrier()

op = MPI.Op.Create(add, commute=True)
for _ in range({TURNS}):
    combine()
    swap()
for _ in range({THREADS}):
    thread = threading.Thread(target=of_thread)
    thread.start()
    thread.join()
if "abort" in sys.argv:
    while not glob.glob(f"/dev/shm/chimbuko-rings-{{os.getpid()}}-*/.lock"):
        time.sleep(0.05)
    world.Barrier()
    world.Abort(7)
"""


def launched(mpi: Mpi, folder: Path, *arguments: str, code: int = 0) -> list[Stream]:
    if reason := why_missing(mpi, "mpicc"):
        pytest.skip(reason)
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    variables = {"MPI4PY_LIBMPI": LIBRARIES[mpi]}
    return record(folder, [program, *arguments], mpi.launch(2), code, **variables)


def nesting(stream: Stream) -> Counter[tuple[str, str]]:
    """Return the number of calls by function and caller, with large counts of MPI as others."""
    found: Counter[tuple[str, str]] = Counter()
    for (caller, called), count in stream.nesting().items():
        names = [name.removesuffix("()").removesuffix("_c") for name in (caller, called)]
        found[names[0], names[1]] += count
    return found


@pytest.mark.parametrize("mpi", LIBRARIES, ids=lambda mpi: mpi.name)
def test_calls_of_mpi_stand_inside_those_of_python(mpi: Mpi, tmp_path: Path) -> None:
    streams = launched(mpi, tmp_path)
    assert [stream.rank for stream in streams] == [0, 1]
    for stream in streams:
        found = nesting(stream)
        assert found["combine", "MPI_Allreduce"] == found["swap", "MPI_Sendrecv"] == TURNS
        assert found["MPI_Allreduce", "add"] >= 1
        # Threads take over each other's ring.
        assert found["of_thread", "MPI_Barrier"] == THREADS
        # A function of Python is around each call of MPI.
        outside = {caller for caller, called in found if called.startswith("MPI_")} - {""}
        assert "" not in outside and ".TAU application" not in outside
        sent = [message for message in stream.messages(EventType.SEND) if message[1] == TAG]
        assert sent == [(1 - stream.rank, TAG, 8)] * TURNS
        assert stream.messages(EventType.RECV).count((1 - stream.rank, TAG, 8)) == TURNS
        assert len(stream.operations) >= TURNS + THREADS
        census = parse_census(stream.metadata(CALLS_SEEN))
        assert census is not None and not census.unwritten
        assert census.source == "the Python tracer and the recorder"
        assert census.seen == (stream.events[:, EVENT_TYPE] == EventType.ENTRY).sum()
        assert stream.metadata(NOT_RECORDED) == ""
        assert not list(Path("/dev/shm").glob(f"chimbuko-rings-{stream.metadata('pid')}-*"))


def test_program_that_is_aborted_says_so(tmp_path: Path) -> None:
    streams = launched(WHEEL, tmp_path, "abort", code=7)
    assert "called MPI_Abort (7)" in "".join(stream.metadata(ENDING) for stream in streams)
    # The last moments of Python are missing, as of all that is killed; the rings are there.
    for stream in streams:
        begun = stream.events[stream.events[:, EVENT_TYPE] == EventType.ENTRY]
        names = [stream.function(row[EVENT_TIMER]) for row in begun.tolist()]
        assert sum("MPI_Allreduce" in name for name in names) == TURNS


def test_mpi_without_a_compiler_for_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text("def begin():\n    from mpi4py import MPI\nbegin()\n")
    monkeypatch.setenv("CC", "no-compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (stream,) = record(tmp_path, [program], MPI4PY_LIBMPI=LIBRARIES[WHEEL])
    assert stream.metadata(NOT_RECORDED).startswith("MPI calls: ")
    assert "no-compiler" in stream.metadata(NOT_RECORDED)


CHILDREN = """
import multiprocessing, subprocess, sys

def alone():
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()

if __name__ == "__main__":
    subprocess.run(sys.argv[1:], check=True)
    for way in ("fork", "spawn"):
        child = multiprocessing.get_context(way).Process(target=alone)
        child.start()
        child.join()
"""


def test_mpi_of_processes_that_a_program_starts_is_recorded(tmp_path: Path) -> None:
    """Ranks of a job keep their distances, so that messages lead to whom they went."""
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    starter = tmp_path / "starter.py"
    starter.write_text(CHILDREN)
    words: list[str | Path] = [starter, *WHEEL.launch(2), sys.executable, tmp_path / "program.py"]
    starting, *started = record(tmp_path, words, MPI4PY_LIBMPI=LIBRARIES[WHEEL])
    assert starting.rank == 0
    of_job = [stream for stream in started if nesting(stream)["combine", "MPI_Allreduce"] == TURNS]
    first, second = (stream.rank for stream in of_job)
    assert second == first + 1
    for stream, other in zip(of_job, (second, first), strict=True):
        sent = [message for message in stream.messages(EventType.SEND) if message[1] == TAG]
        assert sent == [(other, TAG, 8)] * TURNS
        assert stream.metadata(NOT_RECORDED) == ""
    alone = [stream for stream in started if nesting(stream)["alone", "MPI_Barrier"]]
    assert len(alone) == len(started) - 2 == 2
