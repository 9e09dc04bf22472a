"""Calls that are left in unusual ways end there; what is called afterwards has its caller and its time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chimbuko.core.traceschema import EventType
from tests.instrument.recorder.mpi import WHEEL
from tests.instrument.recorder.streams import Stream, record
from tests.instrument.recorder.test_functions import PROGRAMS, compiled
from tests.instrument.recorder.test_stacks import durations_us

ROUNDS = 10


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaves")
    exclude = "-finstrument-functions-exclude-file-list=/usr/include"
    flags = ("-finstrument-functions", exclude, request.param)
    return compiled(PROGRAMS / "leaves.cc", folder / "leaves", *flags, compiler="c++")


def recorded(program: Path, folder: Path, how: str, *more: str) -> Stream:
    (stream,) = record(folder, [program, how, str(ROUNDS), *more])
    assert stream.metadata("Ending") == stream.metadata("Not Recorded") == ""
    return stream


def is_after_of(stream: Stream, caller: str) -> bool:
    """Whether the function after each of them is called by its caller, and takes its 5 ms."""
    return stream.nesting()[caller, "after"] == ROUNDS == stream.calls()["after"] and all(
        duration_us >= 4_900 for duration_us in durations_us(stream, "after")
    )


def test_exceptions_end_the_calls_that_they_leave(program: Path, tmp_path: Path) -> None:
    stream = recorded(program, tmp_path, "exceptions")
    assert stream.calls()["throws"] == 4 * ROUNDS
    assert is_after_of(stream, "exceptions")
    # None lasts until the call that follows, which takes 5 ms.
    assert sorted(durations_us(stream, "throws"))[2 * ROUNDS] < 4_000


@pytest.mark.parametrize("how", ["pthread_exit", "cancel"])
def test_threads_that_end_inside_of_calls_end_them(program: Path, tmp_path: Path, how: str) -> None:
    stream = recorded(program, tmp_path, how)
    left = ("waits", ROUNDS) if how == "cancel" else ("ends", 3 * ROUNDS)
    assert stream.calls()[left[0]] == left[1]
    assert is_after_of(stream, "threads")
    assert max(durations_us(stream, left[0])) < 30_000_000


def test_a_thread_that_is_cancelled_as_it_begins_keeps_no_other_from_beginning(
    program: Path, tmp_path: Path
) -> None:
    (stream,) = record(tmp_path, [program, "cancel early", str(ROUNDS)])
    assert stream.calls()["cancelled_early"] == stream.calls()["main"] == 1


def test_a_child_of_vfork_does_not_end_its_parent(program: Path, tmp_path: Path) -> None:
    stream = recorded(program, tmp_path, "vfork")
    assert stream.calls()["in_child"] == ROUNDS
    assert is_after_of(stream, "forks")


def test_exit_without_ado_is_no_death(program: Path, tmp_path: Path) -> None:
    assert recorded(program, tmp_path, "exceptions", "at once").calls()["main"] == 1


def test_contained_procedures_of_fortran_have_their_names(tmp_path: Path) -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("no gfortran: apt-get install gfortran")
    (tmp_path / "contains.f90").write_text(
        "program sim\n  integer :: i, x = 0\n  do i = 1, 20\n    call physics(i)\n  end do\n  print *, x\n"
        "contains\n  subroutine physics(n)\n    integer, intent(in) :: n\n    x = x + n\n  end subroutine\n"
        "end program\n"
    )
    flags = ("-finstrument-functions", "-fno-inline")
    program = compiled(tmp_path / "contains.f90", tmp_path / "contains", *flags, compiler="gfortran")
    (stream,) = record(tmp_path, [program])
    assert stream.calls()["physics"] == 20


@pytest.fixture(scope="module")
def mpi_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpileft")

    return WHEEL.build(PROGRAMS / "mpileft.cc", folder / "mpileft", "mpicxx")


@pytest.mark.parametrize("how", ["jump", "throw"])
def test_mpi_goes_on_to_be_recorded_when_a_call_of_it_was_left(
    mpi_program: Path, tmp_path: Path, how: str
) -> None:
    (stream,) = record(tmp_path, [mpi_program, how], WHEEL.launch(1))
    assert stream.calls()["MPI_Send()"] == stream.calls()["MPI_Barrier()"] == 5
    # None is part of another one.
    assert {caller for caller, name in stream.nesting() if name.startswith("MPI_")} == {"main"}
    assert stream.calls()["MPI_Finalize()"] == 1


def test_messages_of_a_coroutine_belong_to_its_lane(mpi_program: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [mpi_program, "stacks"], WHEEL.launch(1))
    assert stream.calls(0)["MPI_Isend()"] == stream.calls(1)["MPI_Recv()"] == 5
    kinds = {(int(row[2]), int(row[3])) for row in stream.comms}
    assert kinds == {(0, EventType.SEND), (1, EventType.RECV)}


def test_a_call_ends_behind_one_left_by_a_jump_though_its_function_is_left_out(tmp_path: Path) -> None:
    flags = ("-finstrument-functions", "-O0")
    program = compiled(PROGRAMS / "jumpback.c", tmp_path / "jumpback", *flags)
    (stream,) = record(tmp_path, [program])
    assert "of step" in stream.metadata("Functions Left Out")
    callers = {function: caller for caller, function in stream.nesting() if function in ("jump", "late")}
    assert callers == {"jump": "step", "late": "main"}
