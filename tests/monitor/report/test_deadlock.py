"""Ranks that wait for each other, by their call stacks."""

from __future__ import annotations

from chimbuko.monitor.report.deadlock import deadlock, lines, merged

RING = {rank: ["main()", "exchange", "MPI_Recv()"] for rank in range(4)}


def test_all_ranks_in_receives() -> None:
    found = deadlock(RING, range(4))
    assert found is not None
    assert found.text == "all 4 ranks wait in MPI, and no call of theirs ends: 0-3 in MPI_Recv"
    assert "nobody sends" in found.advice


def test_two_collectives_never_match() -> None:
    found = deadlock({0: ["main", "MPI_Barrier()"], 1: ["main", "MPI_Allreduce()"]}, [0, 1])
    assert found is not None
    assert "0 in MPI_Barrier; 1 in MPI_Allreduce" in found.text
    assert "no two match" in found.advice


def test_a_communicator_is_made_by_all() -> None:
    found = deadlock({0: ["main", "MPI_Cart_create()"], 1: ["main", "PMPI_Comm_split()"]}, [0, 1])
    assert found is not None
    assert "0 in MPI_Cart_create; 1 in MPI_Comm_split" in found.text
    assert "no two match" in found.advice


def test_one_rank_at_work_is_no_deadlock() -> None:
    assert deadlock(RING, range(5)) is None, "rank 4 has no call that stands"
    assert deadlock(RING | {4: ["main()", "solve"]}, range(5)) is None
    assert deadlock(RING | {4: ["main()", "MPI_Test()"]}, range(5)) is None, "it asks, and does not wait"
    assert deadlock({0: ["MPI_Recv()"]}, [0]) is None, "one rank alone may wait for another program"


def test_who_has_ended_is_not_waited_for() -> None:
    assert deadlock(RING, range(3)) is not None


def test_a_tree_of_ten_thousand_ranks_has_a_line_for_each_place() -> None:
    stacks = {rank: ["main", "solve", "MPI_Allreduce"] for rank in range(10_000)}
    stacks[17] = ["main", "solve", "apply_bc"]
    stacks[18] = ["main", "write"]
    assert list(lines(merged(stacks))) == [
        "main: 10,000 ranks (0-9999)",
        "  solve: 9,999 ranks (0-17,19-9999)",
        "    MPI_Allreduce: 9,998 ranks (0-16,19-9999)",
        "    apply_bc: 1 rank (17)",
        "  write: 1 rank (18)",
    ]
