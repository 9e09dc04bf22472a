"""What a child's stream says of its parent, whichever of the two begins, is ranked or ends first."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.instrument.recorder.drain import ranked
from chimbuko.instrument.recorder.launch import FOLDER_VARIABLE
from chimbuko.instrument.recorder.library import INCLUDE, recorder_library
from chimbuko.instrument.recorder.mpi import mpi_of
from chimbuko.instrument.recorder.recording import Recording
from chimbuko.instrument.recorder.ringfolder import process_files
from chimbuko.instrument.tracer.chunks import Handover
from chimbuko.instrument.tracer.writerserver import MOST_AT_A_TIME
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import TRACE, Stream, await_drains, drains, record, streams
from tests.instrument.recorder.test_functions import PROGRAMS, compiled
from tests.patience import PATIENCE_S

DRAIN_AND_WRITER = 2
"""Processes that drain while one process is recorded."""


@pytest.fixture(scope="module")
def parents_with_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("mpi") / "parents"
    return WHEEL.build(PROGRAMS / "parents.c", program, "mpicc", f"-I{INCLUDE}", "-DWITH_MPI")


def started(program: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a program whose parent waits for a line, once its child has ended."""
    running = subprocess.Popen(
        [*TRACE, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert running.stdout is not None and running.stdout.readline() == "the child has ended\n"
    return running


def ended_in_order(running: subprocess.Popen[str], folder: Path) -> list[Stream]:
    """Let the parent go on to its end; the streams."""
    running.communicate("\n", timeout=PATIENCE_S)
    assert running.returncode == 0
    await_drains(folder)
    return streams(folder)


def of_folder(folder: Path) -> dict[str, str]:
    return {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics")}


def await_stream_of_child(folder: Path) -> None:
    latest = time.monotonic() + PATIENCE_S
    while not list(folder.glob("tau-metrics.1-*.bp")):
        assert time.monotonic() < latest, "the child has no stream"
        time.sleep(0.01)


def parents(found: list[Stream]) -> list[str]:
    return [stream.metadata("Parent Process") for stream in found]


def test_parent_without_mpi_has_a_rank_at_once(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "parents.c", tmp_path / "parents")
    running = started(program, **of_folder(tmp_path))
    await_stream_of_child(tmp_path)
    latest = time.monotonic() + PATIENCE_S
    while len(drains(tmp_path)) > DRAIN_AND_WRITER:
        assert time.monotonic() < latest, "the child's stream does not end before its parent"
        time.sleep(0.05)
    found = ended_in_order(running, tmp_path)
    assert parents(found) == ["", f"rank 0, pid {found[0].metadata('pid')}"]


def test_stream_of_a_child_waits_for_the_rank_that_mpi_gives_its_parent(
    parents_with_mpi: Path, tmp_path: Path
) -> None:
    running = started(parents_with_mpi, **of_folder(tmp_path))
    await_stream_of_child(tmp_path)
    found = ended_in_order(running, tmp_path)
    assert parents(found) == ["", f"rank 0, pid {found[0].metadata('pid')}"]


def test_parent_that_has_ended_before_its_child_begins_is_named(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "parents.c", tmp_path / "parents")
    found = record(tmp_path, [program, "left alone"])
    assert parents(found) == ["", f"rank 0, pid {found[0].metadata('pid')}"]


def test_rings_are_emptied_while_mpi_has_not_said_the_rank(parents_with_mpi: Path, tmp_path: Path) -> None:
    library = recorder_library(mpi_of(parents_with_mpi))
    environment = {**os.environ, "LD_PRELOAD": str(library), FOLDER_VARIABLE: str(tmp_path)}
    running = subprocess.Popen(
        [parents_with_mpi], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert running.stdout is not None and running.stdout.readline() == "the child has ended\n"
    (path,) = (path for path in process_files(tmp_path) if path.name.startswith(f"{running.pid}-"))
    recording = Recording(path)

    def handovers() -> Iterator[Handover]:
        yield recording.take(time.monotonic_ns())
        running.communicate("\n", timeout=PATIENCE_S)
        yield recording.last(time.monotonic_ns(), has_become_another=False)

    rank, first = ranked(recording, handovers(), None)
    assert (rank, [handover.is_last for handover in first]) == (0, [False, True])
    assert "work" in first[0].timers.values()
    assert "MPI_Init()" in first[1].timers.values()


def test_children_that_all_end_at_once_have_a_stream_each(tmp_path: Path) -> None:
    children = MOST_AT_A_TIME + 8
    source = tmp_path / "family.c"
    source.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n#include <sys/wait.h>\n"
        "void work(void) { }\n"
        f"int main(void) {{ for (int n = 0; n < {children}; n++) if (fork() == 0) {{ work(); exit(0); }}\n"
        f"    for (int n = 0; n < {children}; n++) wait(NULL); }}\n"
    )
    program = compiled(source, tmp_path / "family", "-finstrument-functions")
    found = record(tmp_path, [program])
    assert len(found) == 1 + children
    assert sum(stream.calls()["work"] for stream in found) == children
