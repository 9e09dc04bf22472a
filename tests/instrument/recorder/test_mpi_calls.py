"""An MPI program in C under the recorder, by its streams: every call, every message, every name."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.traceschema import EventType
from tests.instrument.recorder.mpi import OPEN_MPI, WHEEL, Mpi, why_missing
from tests.instrument.recorder.streams import Stream, record
from tests.places import EXAMPLES

ITERATIONS = 100
ROW_BYTES = 8 * 1024


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> list[Stream]:
    folder = tmp_path_factory.mktemp("heat")
    program = WHEEL.build(EXAMPLES / "heat_mpi.c", folder / "heat_mpi", "mpicc", "-finstrument-functions")
    return record(folder, [program, "--seconds", "1"], WHEEL.launch(2))


def test_every_call_is_there_with_its_name(heat: list[Stream]) -> None:
    assert [(stream.names.program, stream.rank) for stream in heat] == [("heat_mpi", 0), ("heat_mpi", 1)]
    for stream in heat:
        calls = stream.calls()
        assert calls["iterate"] == calls["exchange_halo"] == calls["MPI_Waitall()"] == ITERATIONS
        assert calls["relax_block"] == 4 * ITERATIONS
        assert calls["MPI_Isend()"] == calls["MPI_Irecv()"] == 2 * ITERATIONS
        assert calls["MPI_Allreduce()"] == ITERATIONS // 10
        assert calls["MPI_Init()"] == calls["MPI_Finalize()"] == calls["main"] == 1
        assert all("addr=" not in name for name in stream.names.timers.values())
        assert any(name.startswith("relax_block [{/") for name in stream.names.timers.values())


def test_calls_nest_as_in_the_program(heat: list[Stream]) -> None:
    for stream in heat:
        nesting = stream.nesting()
        assert nesting[".TAU application", "main"] == 1
        assert nesting["main", "iterate"] == nesting["exchange_halo", "MPI_Waitall()"] == ITERATIONS
        assert nesting["relax", "relax_block"] == 4 * ITERATIONS


def test_messages_have_partner_tag_and_size(heat: list[Stream]) -> None:
    first, second = heat
    assert first.messages(EventType.SEND) == [(1, 11, ROW_BYTES)] * ITERATIONS
    assert first.messages(EventType.RECV) == [(1, 10, ROW_BYTES)] * ITERATIONS
    assert second.messages(EventType.SEND) == [(0, 10, ROW_BYTES)] * ITERATIONS
    assert second.messages(EventType.RECV) == [(0, 11, ROW_BYTES)] * ITERATIONS


def test_process_is_described(heat: list[Stream]) -> None:
    for stream in heat:
        assert stream.metadata("Executable").endswith("/heat_mpi")
        assert stream.metadata("Command Line").endswith("heat_mpi --seconds 1")
        assert stream.metadata("Ending") == stream.metadata("Not Recorded") == ""


@pytest.mark.parametrize("mpi", [WHEEL, OPEN_MPI], ids=["mpich", "openmpi"])
def test_program_in_cpp_has_its_names_and_exceptions_end_calls(mpi: Mpi, tmp_path: Path) -> None:
    if reason := why_missing(mpi, "mpicxx"):
        pytest.skip(reason)
    source = Path(__file__).with_name("programs") / "halo.cc"
    program = mpi.build(source, tmp_path / "halo", "mpicxx", "-finstrument-functions")
    for rank, stream in enumerate(record(tmp_path, [program], mpi.launch(2))):
        nesting = stream.nesting()
        assert nesting["main", "plate::Strip::exchange()"] == 20
        (check,) = (name for name in stream.calls() if name.startswith("void plate::Strip::check<double>("))
        assert nesting["main", check] == nesting[check, "MPI_Barrier()"] == 20
        assert stream.messages(EventType.SEND) == stream.messages(EventType.RECV) == [(1 - rank, 5, 400)] * 20
