"""What a program was in when it died, and what becomes of it when our processes die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from glob import iglob
from pathlib import Path

import pytest

from chimbuko.capture.follow.space import MEMORY
from chimbuko.core.errors import TraceFormatError
from chimbuko.instrument.recorder.drain import LINGER_S
from chimbuko.instrument.recorder.ring import ProcessFile, Ring
from chimbuko.instrument.recorder.ringfolder import LOG_NAME, lock_as_drained, unwritten
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import TRACE, Stream, await_drains, drains, streams
from tests.instrument.recorder.test_functions import PROGRAMS, compiled
from tests.patience import PATIENCE_S
from tests.places import EXAMPLES

LATE_THREAD = """
#include <pthread.h>
#include <unistd.h>
static void *work(void *unused) { return unused; }
int main(void)
{
    char told;
    pthread_t thread;
    if (read(0, &told, 1) != 1)
        return 1;
    return pthread_create(&thread, 0, work, 0) != 0 || pthread_join(thread, 0) != 0;
}
"""


def run_to_its_end(folder: Path, how: str) -> tuple[int, Stream]:
    program = compiled(PROGRAMS / "crash.c", folder / "crash", "-finstrument-functions", "-O0")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics")}
    done = subprocess.run([*TRACE, program, how], capture_output=True, env=environment, timeout=PATIENCE_S)
    await_drains(folder)
    (stream,) = streams(folder)
    return done.returncode, stream


@pytest.mark.parametrize(
    ("how", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT), ("overflow", signal.SIGSEGV)]
)
def test_fatal_signal_leaves_stack_and_backtrace(tmp_path: Path, how: str, number: signal.Signals) -> None:
    code, stream = run_to_its_end(tmp_path, how)
    # As it would end without us.
    assert code == -number
    said = stream.metadata("Ending")
    stack, _, backtrace = said.partition("; backtrace: ")
    assert re.match(rf"died \({number.name}\) in .*fail$", stack), said
    assert "recorder" not in backtrace
    assert "fail" in backtrace and (how == "overflow" or "solve < main" in backtrace), said
    open_calls = [stream.function(row[4]) for row in stream.events.tolist() if row[3] == 0]
    assert open_calls[:4] == [".TAU application", "main", "solve", "fail"]
    assert how == "overflow" or (stream.events[:, 3] == 1).sum() == 0


def test_killed_program_is_said_to_be(tmp_path: Path) -> None:
    code, stream = run_to_its_end(tmp_path, "kill")
    assert code == -signal.SIGKILL
    assert stream.metadata("Ending") == "died (killed, or ended without an exit) in main > solve > fail"


def test_program_that_leaves_without_ado_has_ended_in_order(tmp_path: Path) -> None:
    code, stream = run_to_its_end(tmp_path, "leave")
    assert code == 3 and stream.metadata("Ending") == ""
    stream.nesting()


def start_heat(tmp_path: Path) -> subprocess.Popen[str]:
    """Two ranks that go on for some seconds, once the first steps of both are stored."""
    program = WHEEL.build(EXAMPLES / "heat_mpi.c", tmp_path / "heat", "mpicc", "-finstrument-functions")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    environment |= {"TAU_ADIOS2_PERIODIC": "1", "TAU_ADIOS2_PERIOD": "200000"}
    words = [*WHEEL.launch(2), *TRACE, program, "--seconds", "3"]
    running = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    latest = time.monotonic() + PATIENCE_S
    while [one.number("stored") > 0 for one in processes_of(program)] != [True, True]:
        assert time.monotonic() < latest and running.poll() is None
        time.sleep(0.05)
    return running


def await_heat(running: subprocess.Popen[str]) -> None:
    output, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert "2 ranks, 300 iterations" in output


def rows_of(stream: Stream) -> int:
    """All but the ENTRY of the program itself, which the library does not write."""
    parts = stream.events, stream.comms, stream.counters, stream.work, stream.operations
    return sum(map(len, parts)) - 1


def processes_of(program: Path) -> list[ProcessFile]:
    """What the library has for each of its processes."""
    found = []
    # Path.glob ends with an error where a folder goes meanwhile (Python 3.11).
    for path in iglob(f"{MEMORY}/chimbuko-rings-*/*.process"):
        with suppress(TraceFormatError):
            found.append(ProcessFile(Path(path)))
    return [process for process in found if process.text("executable") == str(program)]


def test_program_does_not_notice_that_its_drain_is_killed(tmp_path: Path) -> None:
    running = start_heat(tmp_path)
    for process in drains(tmp_path):
        os.kill(process, signal.SIGKILL)
    found = processes_of(tmp_path / "heat")
    # Else another program that is recorded here might clear up.
    locks = [lock_as_drained(process.path.parent) for process in found]
    await_heat(running)
    left = {}
    for one in found:
        path, rank = one.path, one.number("world_rank")
        written = sum(Ring(ring).number("written") for ring in path.parent.glob("*.ring"))
        left[rank] = written, written - one.number("stored")
        assert unwritten(path) == f"heat, rank {rank}: {left[rank][1]:,} events of it are in no stream"
    assert sorted(left) == [0, 1]
    for stream in streams(tmp_path):
        written, lost = left[stream.rank]
        assert 0 < lost < written
        # What was written last may not have been noted any more.
        assert written - lost <= rows_of(stream) <= written
    for lock in locks:
        os.close(lock)
    subprocess.run([*TRACE, "/bin/true"], cwd=tmp_path, check=True)
    assert not processes_of(tmp_path / "heat")


def test_threads_that_begin_after_a_busy_node_held_up_the_drain_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "late.c").write_text(LATE_THREAD)
    program = compiled(tmp_path / "late.c", tmp_path / "late", "-finstrument-functions", "-lpthread")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    running = subprocess.Popen([*TRACE, program], env=environment, stdin=subprocess.PIPE)
    latest = time.monotonic() + PATIENCE_S
    while not processes_of(program):
        assert time.monotonic() < latest and running.poll() is None
        time.sleep(0.05)
    found = drains(tmp_path)
    for process in found:
        os.kill(process, signal.SIGSTOP)
    time.sleep(2 * LINGER_S)
    for process in found:
        os.kill(process, signal.SIGCONT)
    # The drain looks again, and may think of leaving.
    time.sleep(LINGER_S)
    running.communicate(b"!", timeout=PATIENCE_S)
    await_drains(tmp_path)
    (stream,) = streams(tmp_path)
    assert running.returncode == 0 and stream.metadata("Not Recorded") == ""
    assert stream.calls(1) == {"work": 1}


def test_what_a_killed_writer_has_not_written_is_counted(tmp_path: Path) -> None:
    running = start_heat(tmp_path)
    found = drains(tmp_path)
    for process in found:
        if int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]) in found:
            os.kill(process, signal.SIGKILL)
    await_heat(running)
    await_drains(tmp_path)
    said = (tmp_path / LOG_NAME).read_text()
    for rank in (0, 1):
        lost = rf"heat, rank {rank}: [\d,]+ events of it are in no stream"
        assert re.search(f"{lost}; the process that wrote its stream was ended by SIGKILL", said), said


ABORTS = """
#include <mpi.h>
#include <stdlib.h>
void on_error(MPI_Comm *comm, int *code, ...) { exit(*code != 0 && comm != 0 ? 3 : 4); }
__attribute__((noinline)) void check(int rank, int is_error)
{
    if (rank == 1 && is_error)
        MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
}
int main(int count, char **words)
{
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Errhandler ours;
    MPI_Comm_create_errhandler(on_error, &ours);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours);
    check(rank, count > 1);
    for (;;)
        MPI_Barrier(MPI_COMM_WORLD);
}
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "called MPI_Abort (7) in main > check"),
        (["error"], "ended inside MPI_Send(), as after an error, in main > check > on_error"),
    ],
)
def test_who_ended_all_ranks_says_so_whatever_it_did_afterwards(
    tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "aborts.c").write_text(ABORTS)
    program = WHEEL.build(tmp_path / "aborts.c", tmp_path / "aborts", "mpicc", "-finstrument-functions")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    command = [*WHEEL.launch(2), *TRACE, program, *words]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=PATIENCE_S)
    assert done.returncode != 0
    await_drains(tmp_path)
    first, second = streams(tmp_path)
    assert second.metadata("Ending") == said
    assert first.metadata("Ending").startswith("died (killed")
