"""Programs that scripts and commands start, or become: each is recorded with the library for its own MPI."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chimbuko.core.traceschema import EventType
from chimbuko.instrument.recorder.again import with_library
from chimbuko.instrument.recorder.drain import SUFFIX, unrecorded_starts
from chimbuko.instrument.recorder.ringfolder import LOG_NAME
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import TRACE, await_drains, record
from tests.instrument.recorder.test_functions import compiled
from tests.patience import PATIENCE_S

BARRIERS = """
#include <mpi.h>
int main(int count, char **words)
{
    MPI_Init(&count, &words);
    for (int step = 0; step < 5; step++)
        MPI_Barrier(MPI_COMM_WORLD);
    int rank, size, sent = 1, got;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT, (rank + size - 1) % size, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
"""


@pytest.fixture(scope="module")
def barriers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("barriers")
    (folder / "barriers.c").write_text(BARRIERS)
    return WHEEL.build(folder / "barriers.c", folder / "barriers")


def script(folder: Path, text: str) -> Path:
    path = folder / "start.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("how", ["{program}; true", "exec {program}", "env"])
def test_mpi_program_that_another_one_starts_is_recorded(how: str, barriers: Path, tmp_path: Path) -> None:
    env: list[str | Path] = ["/usr/bin/env", "OTHER=1", barriers]
    words = env if how == "env" else [script(tmp_path, how.format(program=barriers))]
    found = record(tmp_path, words, WHEEL.launch(2), CHIMBUKO_INSTANCES="1")
    of_program = [stream for stream in found if stream.metadata("Executable") == str(barriers)]
    assert [stream.calls()["MPI_Barrier()"] for stream in of_program] == [5, 5]
    assert sorted(stream.rank for stream in of_program) == [0, 1]
    # What became another program has not died.
    assert [stream.metadata("Ending") for stream in found] == [""] * len(found)
    assert [stream.metadata("Not Recorded") for stream in found] == [""] * len(found)
    # The process that finds the library is none of the program's.
    assert not (tmp_path / LOG_NAME).exists()


def test_ranks_of_jobs_that_a_script_launches_keep_their_distances(barriers: Path, tmp_path: Path) -> None:
    job = f"{' '.join(WHEEL.launch(3))} {barriers}"
    found = record(tmp_path, [script(tmp_path, f"{job}; {job}")], CHIMBUKO_INSTANCES="1")
    of_program = [stream for stream in found if stream.metadata("Executable") == str(barriers)]
    assert [stream.calls()["MPI_Barrier()"] for stream in of_program] == [5] * 6
    # One message each to the next rank of the job.
    partners = {
        stream.rank: {partner for partner, *_ in stream.messages(EventType.SEND)} for stream in of_program
    }
    first = min(partners)
    assert partners == {
        first + job + rank: {first + job + (rank + 1) % 3} for job in (0, 3) for rank in range(3)
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("LD_PRELOAD=libc.so.6", "with an LD_PRELOAD of its own, so nothing records it; "
         "add to what is there, as in LD_PRELOAD=libc.so.6:$LD_PRELOAD"),
        ("env -u LD_PRELOAD", "without LD_PRELOAD, so nothing records it; leave LD_PRELOAD as it is"),
    ],
)  # fmt: skip
def test_a_script_that_preloads_for_itself_is_told_so(change: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "plain.c").write_text("int main(void) { return 0; }\n")
    program = compiled(tmp_path / "plain.c", tmp_path / "plain", "-finstrument-functions")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    command = [*TRACE, script(tmp_path, f"{change} {program}; true")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0
    await_drains(tmp_path)
    assert not list(tmp_path.glob("*.bp"))
    (line,) = (tmp_path / LOG_NAME).read_text().splitlines()
    assert f"starts plain {said}" in line


def test_programs_of_one_starter_are_one_sentence(tmp_path: Path) -> None:
    for number, name in enumerate(("ls", "cat", "ls", "sort", "uniq")):
        (tmp_path / f"1-{number}{SUFFIX}").write_text(f"/bin/bash\n/bin/{name}\n/x.so\n")
    # A library of ours that is tried when it is built is none of the program's.
    (tmp_path / f"2-0{SUFFIX}").write_text(
        "/bin/python3\n/bin/true\n/cache/.building-ab/recorder-with-cd.so\n"
    )
    (sentence,) = unrecorded_starts(tmp_path)
    assert sentence.startswith("bash starts ls, cat, sort and 1 more with an LD_PRELOAD of its own")


def test_only_the_recorders_own_library_is_replaced() -> None:
    given = "/a/recorder-12.so /b/tool.so:/c/x.so"
    assert with_library(given, "/a/recorder-34.so") == "/a/recorder-34.so /b/tool.so /c/x.so"
