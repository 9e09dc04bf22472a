"""What functions took, as leaves: of few functions each, and of all others together exactly the rest."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.observe.namespaces.client.performance import MOST_TIMERS, TauLayout
from chimbuko.observe.namespaces.exchange.paths import LONGEST_KEY_BYTES, Path, checked_path
from chimbuko.runtime.protocol.telemetry import OTHERS, TIMER, RankTimers

NAMES = [*(f"MPI_{number}()" for number in range(30)), *(f"f {number}" for number in range(30))]

rows = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(OTHERS, 59), st.integers(1, 9)),
    unique_by=lambda row: row[:3],
    max_size=60,
)


def answer(rows: list[tuple[int, int, int, int]], nodes: bool = True) -> RankTimers:
    """What a part of the server says of program, rank, function and calls of 10 µs, 5 of them exclusive."""
    timers = [(*where, calls, 10.0 * calls, 5.0 * calls) for *where, calls in rows]
    return RankTimers(
        np.array(timers, TIMER).tobytes(),
        {0: "heat", 1: "learn"},
        dict(enumerate(NAMES)),
        [(program, rank, f"node{rank % 2}") for program, rank, *_ in rows] if nodes else [],
    )


def sums(leaves: dict[Path, float], ending: str) -> dict[Path, float]:
    """By program and rank."""
    found: dict[Path, float] = defaultdict(float)
    for path, value in leaves.items():
        if path[-1].endswith(ending):
            found[path[0], path[3]] += value
    return dict(found)


@given(rows, rows)
def test_the_leaves_of_a_rank_add_up_to_all_that_it_did(
    rows: list[tuple[int, int, int, int]], more: list[tuple[int, int, int, int]]
) -> None:
    """Also where others take the time later on, and another process publishes in place of the first."""
    first, second = TauLayout(), TauLayout()
    published = dict(first.leaves([answer(rows)]))
    for path in published:
        second.note(checked_path(path))
    for layout in (first, second):
        again = dict(layout.leaves([answer(rows), answer([])]))
        assert again == published
    grown: dict[tuple[int, int, int], int] = defaultdict(int)
    for program, rank, function, count in (*rows, *more):
        grown[program, rank, function] += count
    totals = [(*where, count) for where, count in grown.items()]
    later = dict(second.leaves([answer(totals)]))
    assert later == dict(first.leaves([answer(totals)]))
    # What is not published again is as it was.
    published |= later
    calls: dict[Path, float] = defaultdict(float)
    for program, rank, _, count in totals:
        calls[("heat", "learn")[program], f"Rank {rank}"] += count
    assert sums(published, "_Calls") == dict(calls)
    assert sums(published, "_Exclusive") == {rank: 5.0 * count for rank, count in calls.items()}
    groups = defaultdict(set)
    for path in published:
        groups[path[0], path[4]].add(path[5].rpartition("_")[0])
        assert path[1] == "TAU" and path[4] == ("MPI_Routines" if path[5].startswith("MPI_") else "TAU")
    assert all(len(names) <= MOST_TIMERS + 1 for names in groups.values())


def test_the_most_time_goes_first_and_a_rank_without_a_node_waits() -> None:
    assert not list(TauLayout().leaves([answer([(0, 1, 3, 1)], nodes=False)]))
    leaves = list(TauLayout().leaves([answer([(0, 1, 40, 1), (0, 2, 40, 1), (0, 1, 50, 9)])]))
    assert [path[-1] for path, _ in leaves[:3]] == ["f 20_Calls", "f 20_Inclusive", "f 20_Exclusive"]
    assert leaves[0] == (("heat", "TAU", "node1", "Rank 1", "TAU", "f 20_Calls"), 9.0)


def test_any_name_of_a_function_makes_a_key() -> None:
    names = {0: "x" * 5000 + "a", 1: "x" * 5000 + "b", 2: "\udc80\0", 3: "a/b"}
    timers = np.array([(0, 0, number, 1, 1.0, 1.0) for number in names], TIMER)
    said = RankTimers(timers.tobytes(), {0: "heat"}, names, [(0, 0, "n")])
    leaves = dict(TauLayout().leaves([said]))
    assert len(leaves) == 3 * len(names)
    for path in leaves:
        assert len(checked_path(path)[-1].encode()) <= LONGEST_KEY_BYTES
