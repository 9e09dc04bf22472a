"""Fortran programs under each MPI that is here: MPI's older module and that of Fortran 2008."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.traceschema import (
    COMM_TAG,
    DETAIL_COMMUNICATOR,
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_PEER,
    EventType,
    Operation,
)
from chimbuko.instrument.recorder.library import INCLUDE
from tests.instrument.recorder.mpi import DEBIANS_MPICH, OPEN_MPI, Mpi, why_missing
from tests.instrument.recorder.streams import Stream, record

PROGRAMS = Path(__file__).with_name("programs")
ROUNDS = 50
BUILT_WITH = [
    pytest.param((mpi, flags), id=f"{mpi.name}-{module}", marks=marks)
    for mpi in (DEBIANS_MPICH, OPEN_MPI)
    for module, flags, marks in (("mpi", (), ()), ("mpi_f08", ("-DMODERN",), pytest.mark.thorough))
]


@pytest.fixture(scope="module", params=BUILT_WITH)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Stream]:
    mpi: Mpi = request.param[0]
    flags: tuple[str, ...] = request.param[1]
    if reason := why_missing(mpi, "mpif90"):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("fortran")
    # A region lasts, although the compiler instruments what begins it as well.
    ours = [str(INCLUDE / "chimbuko_fortran.c"), str(INCLUDE / "chimbuko.f90"), f"-J{folder}"]
    flags = ("-finstrument-functions", *ours, *flags)
    program = mpi.build(PROGRAMS / "halo.F90", folder / "halo", "mpif90", *flags)
    return record(folder, [program], mpi.launch(4))


def test_calls_are_recorded_once(ranks: list[Stream]) -> None:
    assert [stream.rank for stream in ranks] == [0, 1, 2, 3]
    for stream in ranks:
        calls = stream.calls()
        (exchange,) = (name for name in calls if name.startswith("exchange"))
        assert calls["MPI_Waitall()"] == calls["MPI_Allreduce()"] == calls[exchange] == ROUNDS
        assert calls["MPI_Isend()"] == calls["MPI_Irecv()"] == ROUNDS + 1
        assert calls["MPI_Init()"] == calls["MPI_Finalize()"] == calls["MPI_Comm_set_name()"] == 1
        assert stream.nesting()[exchange, "MPI_Waitall()"] == ROUNDS
        assert stream.nesting()["turn", exchange] == calls["turn"] == ROUNDS


def test_messages_are_recorded_once(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        following, before = (rank + 1) % 4, (rank + 3) % 4
        sent, got = stream.messages(EventType.SEND), stream.messages(EventType.RECV)
        assert [message for message in sent if message[1] == 10] == [(following, 10, 800)] * ROUNDS
        assert [message for message in got if message[1] == 10] == [(before, 10, 800)] * ROUNDS
        assert [message for message in sent if message[1] > 20] == [(following, 21, 48), (following, 22, 24)]
        assert [message for message in got if message[1] > 20] == [(before, 21, 48), (before, 22, 24)]
        assert [message for message in sent if message[1] == 20] == ([(1, 20, 40)] if rank == 0 else [])
        assert [message for message in got if message[1] == 20] == ([(0, 20, 40)] if rank == 1 else [])


def test_communicators_and_operations(ranks: list[Stream]) -> None:
    found = {int(stream.details[stream.comms[:, COMM_TAG] == 22, DETAIL_COMMUNICATOR][0]) for stream in ranks}
    assert len(found) == 1
    for stream in ranks:
        rows = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.COLLECTIVE]
        roots = rows[rows[:, OPERATION_COMMUNICATOR] == min(found), OPERATION_PEER].tolist()
        # Rank 1 of the ranks in reverse order.
        assert roots == [2]
        assert len(rows) == ROUNDS + 2
