"""Ranks that take longer than others in the same functions."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.incidents.sentence import recurrence_sentence
from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.pathtable import PATH_TIME
from chimbuko.core.calls.record import Metadata, StreamHealth
from chimbuko.core.traceschema import PARENT_PROCESS
from chimbuko.monitor.sampling.nodebatch import packed
from chimbuko.provenance.incidents.imbalance import Unequal, late_start, unequal
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.query.run import FunctionTime, Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathStatistics, PathTimes, RunStatistics
from tests.causes.nodes import batch, thread
from tests.sample_records import make_batch


def found(*means_us: float, calls: tuple[int, ...] = ()) -> Unequal | None:
    """Ranks that take so long for a call, each a hundred times."""
    counts = calls or (100,) * len(means_us)
    return unequal(
        {rank: FunctionTime(n, n * us, n) for rank, (n, us) in enumerate(zip(counts, means_us, strict=True))}
    )


def test_a_rank_that_takes_twice_as_long() -> None:
    assert found(7100.0, 7000.0, 7200.0, 14_900.0) == Unequal((3,), 100, 14_900.0, 7100.0)
    assert found(14_000.0, 7000.0) == Unequal((0,), 100, 14_000.0, 7000.0)
    # The owners of a coarse level of a grid, by design: that is an imbalance, too.
    assert found(20.0, 20.0, 900.0, 900.0) == Unequal((2, 3), 200, 900.0, 20.0)


def test_a_call_that_each_rank_makes_once_is_judged_by_the_other_ranks() -> None:
    assert found(1e5, 1.1e5, 1e6, 0.9e5, calls=(1, 1, 1, 1)) == Unequal((2,), 1, 1e6, 1e5)
    assert found(3100.0, 10_000.0, 3100.0, 1.5e6, calls=(1, 1, 1, 1)) == Unequal((3,), 1, 1.5e6, 3100.0)
    assert found(1e5, 1.1e5, 1.8e5, 0.9e5, calls=(1, 1, 1, 1)) is None, "too little, for so few calls"
    assert found(1e4, 1.1e4, 9e4, 0.9e4, calls=(1, 1, 1, 1)) is None, "80 ms"
    assert found(1e5, 1e6, calls=(1, 1)) is None, "which one is slow?"
    assert found(1e6, 0.7, 0.7, 0.7, calls=(1, 1, 1, 1)) is None, "only rank 0 reads the input"


@given(st.lists(st.floats(100.0, 140.0), min_size=1, max_size=9))
def test_what_is_no_imbalance(means_us: list[float]) -> None:
    """Unequal shares; an output that only rank 0 writes; ranks that do something else, or are one."""
    assert found(*means_us) is None
    assert found(5180.0, *(0.7 for _ in means_us)) is None
    assert found(300.0, *means_us, calls=(1000, *(100 for _ in means_us))) is None
    assert found(300.0, *means_us, calls=(19,) * (len(means_us) + 1)) is None


def ended(rank: int, own_us: float, functions: list[str]) -> tuple[StreamHealth, PathTimes]:
    rows = [(-1, number, 100, own_us) for number in range(len(functions))]
    health = StreamHealth(0, rank, "node7", "ended", 9, 0, 0, 400, 0, 0, {})
    return health, PathTimes(functions, np.array(rows, PATH_TIME).tobytes())


def test_functions_with_the_same_slow_ranks_are_one_finding(writer: Writer, provenance: Provenance) -> None:
    spent = PathStatistics(0, ["solve"], 400, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 400, 10e6)
    writer.write_statistics(RunStatistics({0: "heat"}, paths=[spent]))
    names = ["solve", "refine", "MPI_Allreduce()"]
    streams = [ended(rank, 2e6 if rank == 3 else 1e6, names) for rank in range(4)]
    goes_on = msgspec.structs.replace(streams[0][0], state="reading")
    writer.write([make_batch(8, "0:0", health=goes_on)])
    writer.write([make_batch(9, f"0:{one.rank}", health=one, paths=paths) for one, paths in streams[1:]])
    assert recurring(provenance) == [], "nobody knows what rank 0 is going to do"
    writer.write([make_batch(9, "0:0", health=streams[0][0], paths=streams[0][1])])
    (one,) = recurring(provenance)
    assert (one.kind, one.ranks, one.calls) == (RecurrenceKind.SLOW_RANKS, [3], 200)
    assert set(one.functions) == {"solve", "refine"}
    assert (one.factor, one.cost_us, one.usual_us) == pytest.approx((2.0, 2e6, 1e4))


def test_who_comes_late_to_the_begin_of_mpi() -> None:
    def start(*lengths_us: float) -> Unequal | None:
        return late_start({rank: FunctionTime(1, us, 1) for rank, us in enumerate(lengths_us)})

    assert start(1.48e6, 1.32e6, 0.3e6, 1.16e6) == Unequal((2,), 3, pytest.approx(0.94e6), 0.3e6)
    assert start(0.3e6, 1.3e6) == Unequal((0,), 1, 1e6, 0.3e6)
    assert start(0.3e6, 0.31e6, 1.3e6, 1.3e6, 1.3e6) == Unequal((0, 1), 3, 1e6, 0.3e6)
    assert start(0.3e6, 0.3e6, 0.3e6, 1.2e6) is None, "one rank is slow in it"
    assert start(0.3e6, 0.5e6, 0.5e6) is None, "ranks do not begin at the same moment"
    assert start(0.01e6, 0.1e6, 0.1e6) is None and start(1e6) is None


def write_ranks(writer: Writer, times: dict[str, list[float]], asleep: float = 0.0) -> None:
    """Write a run with one call of each function on each rank, of which a share of the time was slept."""
    paths = [
        PathStatistics(
            *(0, [name], 4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4, sum(us)),
            *(sum(us), asleep * sum(us)),
        )
        for name, us in times.items()
    ]
    writer.write_statistics(RunStatistics({0: "heat"}, paths=paths))
    for rank in range(4):
        rows = [(-1, at, 1, us[rank]) for at, us in enumerate(times.values())]
        health = StreamHealth(0, rank, "node7", "ended", 9, 0, 0, 400, 0, 0, {})
        packed = PathTimes(list(times), np.array(rows, PATH_TIME).tobytes())
        writer.write([make_batch(9, f"0:{rank}", health=health, paths=packed)])


def test_a_late_rank_is_told_with_what_it_did_meanwhile(writer: Writer, provenance: Provenance) -> None:
    start = [1.3e6, 1.3e6, 0.3e6, 1.3e6]
    write_ranks(writer, {"MPI_Init()": start, "setup": [1.0, 1.0, 1e6, 1.0], "solve": [5e6] * 4})
    (one,) = recurring(provenance)
    assert recurrence_sentence(one) == (
        "Rank 2 came to MPI_Init 1 s late, the time spent in setup before; 3 ranks waited there: "
        "3 s lost in all."
    )


def test_workers_that_wait_for_work_are_no_slow_ranks(writer: Writer, provenance: Provenance) -> None:
    """Two workers get little to do, and wait for more; else they sleep 4 s longer than the others."""
    idle = [0.5e6, 0.5e6, 4.5e6, 4.5e6]
    write_ranks(writer, {".TAU application": idle, "work": [5e6, 5e6, 1e6, 1e6]}, asleep=0.9)
    assert recurring(provenance) == []


@pytest.mark.parametrize(("waited_ms", "slow"), [(3_000, []), (500, [[3]])])
def test_what_a_rank_waits_for_its_core_is_no_imbalance(
    writer: Writer, provenance: Provenance, waited_ms: int, slow: list[list[int]]
) -> None:
    """All ranks work for a second, and rank 3 for four, or others have its core for three."""
    write_ranks(writer, {"work": [1e6, 1e6, 1e6, 4e6]}, asleep=0.1)
    looks = [
        thread(rank, 0, 4000, ran_us=1000 * (4000 - waited), waited_us=1000 * waited)
        for rank, waited in enumerate([0, 0, 0, waited_ms])
    ]
    writer.write_samples([packed(batch([], periods=looks, is_sum=True))])
    assert [one.ranks for one in recurring(provenance)] == slow


def test_ranks_that_sleep_longer_and_end_later_are_slow(writer: Writer, provenance: Provenance) -> None:
    write_ranks(writer, {"work": [1e6, 1e6, 1e6, 4e6]}, asleep=0.9)
    assert [one.ranks for one in recurring(provenance)] == [[3]]


def test_a_process_and_its_workers_are_not_compared(writer: Writer, provenance: Provenance) -> None:
    spent = PathStatistics(0, ["main"], 400, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 400, 10e6)
    writer.write_statistics(RunStatistics({0: "pool"}, paths=[spent]))
    for rank, own_us in enumerate((1e7, 1e6, 1e6, 4e6)):
        health, paths = ended(rank, own_us, ["main"])
        parent = [Metadata(0, rank, 0, PARENT_PROCESS, "rank 0, pid 7")] if rank else []
        writer.write([make_batch(9, f"0:{rank}", health=health, paths=paths, metadata=parent)])
    (one,) = recurring(provenance)
    assert (one.ranks, one.factor) == ([3], 4.0), "but workers are compared with each other"
