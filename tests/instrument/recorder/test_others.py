"""Programs that exec, load libraries, have tools before MPI, spawn, end early, or cannot be recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.core.traceschema import DETAIL_COMMUNICATOR, EventType
from chimbuko.instrument.recorder.mpi import mpi_of
from tests.instrument.recorder.mpi import OPEN_MPI, WHEEL, Mpi, why_missing
from tests.instrument.recorder.streams import TRACE, record
from tests.instrument.recorder.test_functions import PROGRAMS, compiled

PLUGIN = "int plugin(int number) { return number + 1; }\n"
LOADS_MPI = """
#include <dlfcn.h>
int main(int count, char **words)
{
    void *mpi = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    int (*init)(int *, char ***) = mpi ? (int (*)(int *, char ***))dlsym(mpi, "MPI_Init") : 0;
    int (*finalize)(void) = mpi ? (int (*)(void))dlsym(mpi, "MPI_Finalize") : 0;
    return init == 0 || init(&count, &words) != 0 || finalize() != 0;
}
"""
TOOL = """
#include <mpi.h>
#include <stdio.h>
static int sends;
int MPI_Barrier(MPI_Comm comm) { sends++; return PMPI_Barrier(comm); }
__attribute__((destructor)) static void end(void) { printf("tool saw %d\\n", sends); }
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others")
    return WHEEL.build(PROGRAMS / "others.c", folder / "others", "mpicc", "-ldl")


def test_exec_goes_on_as_the_program_that_it_became(others: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [others, "exec"], WHEEL.launch(1), CHIMBUKO_INSTANCES="1")[-1:]
    assert stream.calls()["MPI_Barrier()"] == stream.calls()["MPI_Finalize()"] == 1


def test_functions_of_a_library_that_is_loaded_later_have_names(others: Path, tmp_path: Path) -> None:
    (tmp_path / "plugin.c").write_text(PLUGIN)
    flags = ("-shared", "-fPIC", "-finstrument-functions")
    plugin = compiled(tmp_path / "plugin.c", tmp_path / "plugin.so", *flags)
    (stream,) = record(tmp_path, [others, "dlopen", plugin], WHEEL.launch(1))
    assert stream.calls()["plugin"] == 1


def test_program_that_loads_mpi_itself_says_that_its_calls_are_not_recorded(
    others: Path, tmp_path: Path
) -> None:
    mpi = mpi_of(others)
    assert mpi is not None
    (tmp_path / "loads.c").write_text(LOADS_MPI)
    program = compiled(tmp_path / "loads.c", tmp_path / "loads", "-ldl")
    (stream,) = record(tmp_path, [program, mpi.path], WHEEL.launch(1))
    said = stream.metadata("Not Recorded")
    assert said.startswith("MPI calls: it is not linked with MPI, and loads ") and mpi.path.name in said


def test_program_that_ends_without_finalize_ends_its_stream(others: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [others, "unfinished"])
    assert stream.calls() == {".TAU application": 1, "main": 1, "MPI_Init()": 1, "MPI_Barrier()": 1}
    assert stream.metadata("Ending") == ""


def test_tool_in_the_program_is_called_as_ever(tmp_path: Path) -> None:
    program = WHEEL.build(PROGRAMS / "others.c", tmp_path / "tool", "mpicc", "-DWITH_TOOL", "-ldl")
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    done = subprocess.run([*TRACE, program, "tool"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout == "barriers 1\n", done.stderr


def test_tool_in_a_library_is_called_behind_the_recorder(tmp_path: Path) -> None:
    (tmp_path / "tool.c").write_text(TOOL)
    tool = WHEEL.build(tmp_path / "tool.c", tmp_path / "libtool.so", "mpicc", "-shared", "-fPIC")
    flags = ("-Wl,--no-as-needed", str(tool), f"-Wl,-rpath,{tmp_path}", "-ldl")
    program = WHEEL.build(PROGRAMS / "others.c", tmp_path / "others", "mpicc", *flags)
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(tmp_path / "tau-metrics")}
    done = subprocess.run([*TRACE, program, "plain"], capture_output=True, text=True, env=environment)
    assert done.stdout == "tool saw 1\n", done.stderr
    (stream,) = record(tmp_path, [program, "plain"])
    assert stream.calls()["MPI_Barrier()"] == 1


def test_spawned_programs_are_ranks_where_they_are_traced(others: Path, tmp_path: Path) -> None:
    words = [others, "spawn", sys.executable]
    found = record(tmp_path, words, WHEEL.launch(1), CHIMBUKO_INSTANCES="1")
    assert [stream.rank for stream in found] == [0, 1, 2]
    for stream in found:
        assert stream.calls()["MPI_Barrier()"] == 2
        assert stream.metadata("Not Recorded") == stream.metadata("Ending") == ""


@pytest.mark.parametrize("mpi", [WHEEL, OPEN_MPI], ids=["mpich", "openmpi"])
def test_many_threads_that_call_mpi_are_recorded_each_for_itself(mpi: Mpi, tmp_path: Path) -> None:
    if reason := why_missing(mpi, "mpicc"):
        pytest.skip(reason)
    program = mpi.build(PROGRAMS / "others.c", tmp_path / "others", "mpicc", "-ldl", "-lpthread")
    for rank, stream in enumerate(record(tmp_path, [program, "threads"], mpi.launch(2))):
        assert stream.metadata("Not Recorded") == ""
        for thread in range(1, 10):
            calls = stream.calls(thread)
            assert calls["MPI_Isend()"] == calls["MPI_Irecv()"] == calls["MPI_Waitall()"] == 200
        expected = [(1 - rank, tag, 4) for tag in range(200) for _ in range(9)]
        assert sorted(stream.messages(EventType.SEND)) == sorted(stream.messages(EventType.RECV)) == expected
        # Each thread has a communicator of its own.
        assert len(set(stream.details[:, DETAIL_COMMUNICATOR].tolist())) == 9


def test_program_that_uses_the_interface_for_tools_is_recorded(others: Path, tmp_path: Path) -> None:
    for stream in record(tmp_path, [others, "tools interface"], WHEEL.launch(2)):
        assert stream.calls()["MPI_Barrier()"] == stream.calls()["MPI_Finalize()"] == 1


def test_sessions_have_ranks_in_the_world(others: Path, tmp_path: Path) -> None:
    found = record(tmp_path, [others, "sessions"], WHEEL.launch(4))
    communicators = []
    for rank, stream in enumerate(found):
        partner = (rank + 2) % 4
        assert stream.messages(EventType.SEND) == stream.messages(EventType.RECV) == [(partner, 5, 4)]
        assert stream.calls()["MPI_Session_init()"] == stream.calls()["MPI_Session_finalize()"] == 1
        communicators += [set(stream.details[:, DETAIL_COMMUNICATOR].tolist())]
    assert communicators[0] == communicators[2] != communicators[1] == communicators[3]


def test_what_cannot_be_recorded_runs_and_one_line_says_why(tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 5; }\n')
    static = compiled(source, tmp_path / "static", "-static")
    privileged = compiled(source, tmp_path / "privileged")
    privileged.chmod(0o4755)
    for program, reason in ((static, "it is linked statically"), (privileged, "it is set-user-ID")):
        done = subprocess.run([*TRACE, program], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (5, "hello\n")
        (line,) = done.stderr.splitlines()
        assert f"{program} runs, and is not recorded: {reason}" in line


def test_without_a_compiler_the_program_runs(tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    program = compiled(source, tmp_path / "hello")
    environment = {**os.environ, "CC": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([*TRACE, program], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "is not recorded: no C compiler for the recorder" in done.stderr
    assert len(done.stderr.splitlines()) == 1
