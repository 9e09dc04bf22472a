"""Messages of all kinds have partner, tag, size, communicator and request; under each MPI that is here."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from chimbuko.core.traceschema import (
    COMM_TAG,
    DETAIL_COMMUNICATOR,
    DETAIL_REQUEST,
    NO_PEER,
    OPERATION_COMMUNICATOR,
    OPERATION_KIND,
    OPERATION_NUMBER,
    OPERATION_PEER,
    OPERATION_REQUEST,
    OPERATION_SIZE,
    EventType,
    Operation,
)
from chimbuko.monitor.report.matrix import MessageMatrix
from chimbuko.monitor.report.ranktables import read_rank_tables
from tests.instrument.recorder.mpi import DEBIANS_MPICH, OPEN_MPI, WHEEL, Mpi, why_missing
from tests.instrument.recorder.streams import Stream, record
from tests.patience import PATIENCE_S

PROGRAMS = Path(__file__).with_name("programs")
RANKS = range(4)
SENT, GOT = EventType.SEND, EventType.RECV


WITH = [
    WHEEL,
    OPEN_MPI,
    # Older than the wheel's, and else the same.
    pytest.param(DEBIANS_MPICH, marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module", params=WITH, ids=["wheel", "openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    mpi: Mpi = request.param
    if reason := why_missing(mpi, "mpicc"):
        pytest.skip(reason)
    return mpi


@pytest.fixture(scope="module")
def program(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mpi.build(PROGRAMS / "messages.c", tmp_path_factory.mktemp("messages") / "messages")


@pytest.fixture(scope="module")
def ranks(mpi: Mpi, program: Path) -> list[Stream]:
    return record(program.parent, [program], mpi.launch(4))


def check_counted(command: list[str], ranks: list[Stream], folder: Path) -> None:
    """A command that counts messages into a folder finds as many as the streams have."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    expected = MessageMatrix(ranks=len(ranks))
    for stream in ranks:
        expected.add(stream.comms, SENT, GOT)
    assert read_rank_tables(folder) == ({"messages": expected}, [])
    total = f"messages: {sum(expected.sent.counts.values())} messages, "
    assert done.stderr.count(total) == 1, done.stderr
    assert len(list(folder.glob("*.nxn.heatmap.csv"))) == 4


def test_counted_without_a_trace_they_are_as_many(
    mpi: Mpi, program: Path, ranks: list[Stream], tmp_path: Path
) -> None:
    check_counted([*counting(tmp_path), *mpi.launch(4), str(program)], ranks, tmp_path)


@pytest.mark.thorough
def test_monitors_of_single_ranks_count_together(
    mpi: Mpi, program: Path, ranks: list[Stream], tmp_path: Path
) -> None:
    # Of an earlier run with more ranks.
    (tmp_path / "messages.messages.0.csv").write_text("damaged")
    check_counted([*mpi.launch(4), *counting(tmp_path), str(program)], ranks, tmp_path)


def counting(folder: Path) -> list[str]:
    return [sys.executable, "-m", "chimbuko", "monitor", "--count-messages", "--csv", str(folder), "--"]


def messages(stream: Stream, kind: EventType, first_tag: int, last_tag: int) -> list[tuple[int, int, int]]:
    return [message for message in stream.messages(kind) if first_tag <= message[1] <= last_tag]


def test_all_is_recorded(ranks: list[Stream]) -> None:
    assert [stream.rank for stream in ranks] == list(RANKS)
    for stream in ranks:
        stream.nesting()
        assert stream.metadata("Not Recorded") == stream.metadata("Ending") == ""


def test_blocking_messages(ranks: list[Stream]) -> None:
    assert messages(ranks[0], SENT, 100, 199) == [(1, 100, 80), (1, 101, 44)]
    assert messages(ranks[1], GOT, 100, 199) == [(0, 100, 80), (0, 101, 44)]


def test_exchanges(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        expected = [(rank ^ 1, 200, 32), (rank ^ 1, 201, 40)]
        assert messages(stream, SENT, 200, 299) == messages(stream, GOT, 200, 299) == expected


def test_nonblocking_messages(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        tags = [*range(300, 306), *range(400, 440)]
        sizes = [56] * 6 + [8] * 40
        following, before = (rank + 1) % 4, (rank + 3) % 4
        expected = zip([following] * 46, tags, sizes, strict=True)
        assert messages(stream, SENT, 300, 499) == list(expected)
        assert Counter(messages(stream, GOT, 300, 499)) == Counter(
            zip([before] * 46, tags, sizes, strict=True)
        )
        assert messages(stream, GOT, 999, 999) == []


def test_requests_tie_beginning_and_end_together(ranks: list[Stream]) -> None:
    for stream in ranks:
        tags = stream.comms[:, COMM_TAG].astype(int)
        chosen = (tags >= 300) & (tags < 600)
        kinds, requests = stream.comms[chosen, 3], stream.details[chosen, DETAIL_REQUEST]
        begun = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.RECEIVE_POSTED]
        ended = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.COMPLETED]
        sends = set(requests[kinds == SENT].tolist())
        receives = set(requests[kinds == GOT].tolist())
        # Each is a number of its own, also each time that a persistent one is started.
        assert len(sends) == len(receives) == 46 + 3
        assert 0 not in sends | receives and not sends & receives
        assert receives <= set(begun[:, OPERATION_REQUEST].tolist())
        # MPICH may give several sends that are over at once the same request.
        assert set(ended[:, OPERATION_REQUEST].tolist()) & receives == set()
        wildcards = begun[(begun[:, OPERATION_NUMBER] >= 300) & (begun[:, OPERATION_NUMBER] < 306)]
        assert [peer == NO_PEER for peer in wildcards[:, OPERATION_PEER].tolist()] == [False, True] * 3


def test_persistent_and_probed_messages(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        assert messages(stream, SENT, 500, 500) == [((rank + 1) % 4, 500, 24)] * 3
        assert messages(stream, GOT, 500, 500) == [((rank + 3) % 4, 500, 24)] * 3
    assert messages(ranks[3], GOT, 600, 601) == [(2, 600, 48), (2, 601, 56)]


def test_partners_are_ranks_of_the_world(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        partner = (rank + 2) % 4
        expected = [(partner, 700, 16), (partner, 701, 16)]
        assert messages(stream, SENT, 700, 701) == messages(stream, GOT, 700, 701) == expected
        expected = {0: [(3, 702, 8)], 3: [(0, 702, 8)]}.get(rank, [])
        assert messages(stream, SENT, 702, 702) == messages(stream, GOT, 702, 702) == expected
        # Ranks in the halves are by descending world rank.
        other = {0: 1, 1: 0, 2: 3, 3: 2}[rank]
        assert messages(stream, SENT, 703, 703) == messages(stream, GOT, 703, 703) == [(other, 703, 24)]


def test_members_agree_on_a_communicator(ranks: list[Stream]) -> None:
    by_tag = [
        {
            int(tag): int(comm)
            for tag, comm in zip(s.comms[:, COMM_TAG], s.details[:, DETAIL_COMMUNICATOR], strict=True)
        }
        for s in ranks
    ]
    halves: list[tuple[int, ...]] = [(0, 2), (1, 3)]
    ends: list[tuple[int, ...]] = [(0, 3)]
    shared = {700: halves, 701: halves, 702: ends, 703: [tuple(RANKS)]}
    for tag, groups in shared.items():
        identities = [{by_tag[rank][tag] for rank in group} for group in groups]
        assert all(len(identity) == 1 for identity in identities), tag
        assert len(set.union(*identities)) == len(groups), tag
    different = [by_tag[0][tag] for tag in (200, 700, 701, 702, 703)]
    assert len(set(different)) == 5
    assert ranks[2].metadata(f"Communicator {by_tag[2][700]}") == "2 ranks, here rank 0"


def test_collective_operations_are_numbered_alike(ranks: list[Stream]) -> None:
    found = []
    for stream in ranks:
        rows = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.COLLECTIVE]
        world = stream.details[stream.comms[:, COMM_TAG] == 200][0, DETAIL_COMMUNICATOR]
        of_world = rows[rows[:, OPERATION_COMMUNICATOR] == world]
        columns = of_world[:, [OPERATION_NUMBER, OPERATION_PEER]].tolist()
        assert [number for number, _ in columns] == list(range(len(columns)))
        found.append([peer for _, peer in columns])
        sizes = of_world[2:7, OPERATION_SIZE].tolist()
        # Split, create; barrier, broadcast, gather (its root gives nothing), two reductions; then windows.
        assert sizes == [0, 96, 0 if stream.rank == 1 else 16, 24, 32]
        assert np.count_nonzero(of_world[:, OPERATION_REQUEST]) == 1
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0][:7] == [NO_PEER, NO_PEER, NO_PEER, 2, 1, NO_PEER, NO_PEER]


def test_one_sided_operations(ranks: list[Stream]) -> None:
    for rank, stream in enumerate(ranks):
        rows = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.ONE_SIDED]
        columns = rows[:, [OPERATION_PEER, OPERATION_SIZE]].tolist()
        assert columns == [[(rank + 1) % 4, 8], [(rank + 2) % 4, 8]]
        rows = stream.operations[stream.operations[:, OPERATION_KIND] == Operation.SYNCHRONISATION]
        assert rows[:, OPERATION_PEER].tolist() == [(rank + 2) % 4] * 2
