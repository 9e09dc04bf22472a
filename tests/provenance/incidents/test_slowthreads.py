"""Threads that take longer than others of their rank in the same functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.pathtable import PATH_TIME, THREAD_PATH_TIME
from chimbuko.core.calls.record import Metadata, StreamHealth
from chimbuko.core.statistics.latethreads import LATE_THREADS, LateThread, encode_late_threads
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.incidents.slowthreads import late_threads
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathStatistics, PathTimes, RunStatistics
from tests.sample_records import make_batch

CALLS = 100
FUNCTIONS = ["solve", "refine"]


def write(
    writer: Writer, ranks: Mapping[int, list[tuple[float, float]]], asleep: float = 0.0, other_us: float = 0.0
) -> None:
    """Write a run of two functions, by rank the mean runtimes of each of its threads; functions sleep for a
    share of the time, and threads but the last of a rank spend some more elsewhere.
    """
    total_us = sum(CALLS * sum(means) for threads in ranks.values() for means in threads)
    paths = [
        PathStatistics(
            *(0, [name], CALLS, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, CALLS, total_us / 2),
            *(total_us, asleep * total_us),
        )
        for name in FUNCTIONS
    ]
    writer.write_statistics(RunStatistics({0: "heat"}, paths=paths))
    for rank, threads in ranks.items():
        times = [(-1, -1, 1, 0.0)] + [
            (-1, at, CALLS * len(threads), CALLS * sum(means[at] for means in threads)) for at in (0, 1)
        ]
        of_threads = [
            (thread, 1 + at, CALLS, CALLS * mean_us)
            for thread, means in enumerate(threads)
            for at, mean_us in enumerate(means)
        ] + [(thread, 0, 1, other_us) for thread in range(len(threads) - 1)]
        packed = PathTimes(
            FUNCTIONS,
            np.array(times, PATH_TIME).tobytes(),
            np.array(of_threads, THREAD_PATH_TIME).tobytes(),
        )
        health = StreamHealth(0, rank, "node7", "ended", 9, 0, 0, 400, 0, 0, {})
        writer.write([make_batch(9, f"0:{rank}", health=health, paths=packed)])


def test_a_thread_that_always_takes_twice_as_long(writer: Writer, provenance: Provenance) -> None:
    quick, slow = (1e4, 2e4), (2e4, 2e4)
    write(writer, {0: [quick, quick, quick, slow], 1: [quick] * 4, 2: [quick, slow, quick, quick]})
    (one,) = recurring(provenance)
    assert (one.kind, one.function, one.ranks) == (RecurrenceKind.SLOW_THREADS, "solve", [0, 2])
    assert (one.threads, one.calls, one.cost_us) == ([1, 3], 2 * CALLS, pytest.approx(2 * 1e6))
    told = "solve takes 20 ms on threads 1 and 3 of ranks 0 and 2, 2.00 times the 10 ms on the other threads"
    assert recurrence_sentence(one) == f"Imbalance: {told}: 2 s lost in all."
    # What ranks are compared by, and what they spent, is all their calls, each once.
    assert provenance.times_of_ranks()[0, "solve"][0].calls == 4 * CALLS
    assert sum(path.calls for path in provenance.rank_paths(0, 0)) == 8 * CALLS + 1


def test_functions_of_the_same_threads_are_one_finding(writer: Writer, provenance: Provenance) -> None:
    write(writer, {0: [(1e4, 2e4), (1e4, 2e4), (1e4, 2e4), (3e4, 5e4)]})
    (one,) = recurring(provenance)
    assert (one.functions, one.threads) == (["refine", "solve"], [3])
    assert recurrence_sentence(one).startswith("Thread 3 of rank 0 takes 2.67 times as long as the other")


def test_who_sleeps_longer_only_waits_longer(writer: Writer, provenance: Provenance) -> None:
    """Three threads compute 1 s more than the last one, which waits for them in what it sleeps in."""
    write(writer, {0: [(1e4, 1e4)] * 3 + [(2e4, 1e4)]}, asleep=0.9, other_us=1e6)
    assert recurring(provenance) == []


def test_who_sleeps_longer_and_ends_later_is_slow(writer: Writer, provenance: Provenance) -> None:
    write(writer, {0: [(1e4, 1e4)] * 3 + [(2e4, 1e4)]}, asleep=0.9)
    assert [one.threads for one in recurring(provenance)] == [[3]]


def test_threads_that_are_slow_in_something_else_are_findings_of_their_own(
    writer: Writer, provenance: Provenance
) -> None:
    write(writer, {0: [(1e4, 2e4), (1e4, 2e4), (1e4, 5e4), (3e4, 2e4)]})
    assert [(one.function, one.threads) for one in recurring(provenance)] == [("refine", [2]), ("solve", [3])]


def test_what_a_barrier_waits_for_is_told_once(writer: Writer, provenance: Provenance) -> None:
    write(writer, {0: [(1e4, 2e4), (1e4, 2e4), (1e4, 2e4), (3e4, 2e4)]})
    late = [
        LateThread(f"OpenMP barrier {name}", thread, 4, 100, 0.9, 3.0, 2e6)
        for name, thread in (("a", 3), ("b", 1))
    ]
    said = Metadata(0, 0, 0, LATE_THREADS, encode_late_threads(late))
    writer.write([make_batch(10, "0:0", metadata=[said])])
    found = {(one.kind, one.by or one.threads[0]) for one in recurring(provenance)}
    assert found == {(RecurrenceKind.SLOW_THREADS, 3), (RecurrenceKind.LATE_THREADS, "thread 1")}


def test_a_main_thread_that_wakes_its_team_is_not_slow(
    writer: Writer, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.FUNCTIONS", ["solve", "OpenMP parallel solve [{/a.c} {7,0}]"])
    write(writer, {0: [(1e4, 5e3), (2e4, 1e3)]})
    assert [one.functions for one in recurring(provenance)] == [["solve"]]


BARRIER = "OpenMP barrier solve [{/a.c} {120,0}]"


def says(rank: int, *found: LateThread) -> Metadata:
    return Metadata(0, rank, 0, LATE_THREADS, encode_late_threads(list(found)))


def test_one_finding_for_each_barrier(writer: Writer, provenance: Provenance) -> None:
    spent = PathStatistics(0, ["solve"], 400, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 400, 10e6)
    writer.write_statistics(RunStatistics({0: "heat"}, paths=[spent]))
    late = LateThread(BARRIER, 3, 8, 200, 0.85, 1.4, 2e6)
    little = LateThread("OpenMP barrier sum [{/a.c} {9,0}]", 1, 8, 200, 0.9, 1.3, 20.0)
    said = {0: says(0, late, little), 1: says(1, LateThread(BARRIER, 3, 8, 200, 0.7, 1.3, 1e6))}
    for rank, metadata in said.items():
        writer.write([make_batch(1, f"0:{rank}", metadata=[metadata])])
    (found,) = late_threads(provenance, [])
    assert (found.kind, found.function, found.ranks) == (RecurrenceKind.LATE_THREADS, BARRIER, [0, 1])
    assert (found.by, found.factor, found.share, found.cost_us) == ("thread 3", 1.4, 0.85, 3e6)
