"""Time of threads over steps: what ranks report adds up, step by step and in stretches."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.monitor.sampling.nodebatch import ThreadName, packed
from chimbuko.provenance.incidents.runbudget import MOST_BARS, StepTime, step_times
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.causes.flagged import at
from tests.causes.nodes import NODE_NAME, thread
from tests.causes.nodes import batch as samples

Batch = Callable[..., RecordBatch]

SECOND_US = 1_000_000
SPENT = (600_000, 300_000, 50_000, 0, 50_000)


def write(writer: Writer, make_batch: Batch, steps: int, ranks: int = 2) -> None:
    for rank in range(ranks):
        counts = [
            StepCount(0, rank, at, (1 + at) * SECOND_US, (2 + at) * SECOND_US, 9, 0, 0.0, 0.0, *SPENT)
            for at in range(steps)
        ]
        health = StreamHealth(0, rank, "node7", "ended", steps, 1, 1, 1, 0, 0, {})
        writer.write([make_batch(rank + 1, f"0:{rank}", steps=counts, health=health)])


def parts(one: StepTime) -> list[float]:
    return [one.computing_us, one.mpi_us, one.io_us, one.gpu_us, one.asleep_us, one.waiting_us]


def test_each_step_has_the_time_of_all_ranks_or_of_those_wanted(
    writer: Writer, batch: Batch, provenance: Provenance
) -> None:
    write(writer, batch, 3)
    of_all = step_times(provenance)
    assert (of_all.length, of_all.ranks, of_all.is_sampled) == (1, 2, False)
    assert [one.step for one in of_all.times] == [0, 1, 2]
    assert parts(of_all.times[1]) == [1.2e6, 6e5, 1e5, 0, 1e5, 0]
    of_one = step_times(provenance, {(0, 1)}, (1, 2))
    assert [one.step for one in of_one.times] == [1, 2]
    assert parts(of_one.times[0]) == [*map(float, SPENT), 0.0]


def test_many_steps_are_taken_together_and_nothing_is_lost(
    writer: Writer, batch: Batch, provenance: Provenance
) -> None:
    write(writer, batch, MOST_BARS + 3, ranks=1)
    of_all = step_times(provenance)
    assert of_all.length == 8 and len(of_all.times) <= MOST_BARS
    assert sum(one.analysed for one in of_all.times) == MOST_BARS + 3
    assert sum(sum(parts(one)) for one in of_all.times) == pytest.approx((MOST_BARS + 3) * sum(SPENT))
    some = step_times(provenance, steps=(10, 20))
    assert (some.length, len(some.times)) == (1, 11)


def test_samples_say_how_long_threads_slept_in_a_step(
    writer: Writer, batch: Batch, provenance: Provenance
) -> None:
    """Two steps of 5 s in MPI and computing, the second of which waits for a core half of its time."""
    spent = 2_000_000, 3_000_000, 0, 0, 0
    counts = [
        StepCount(0, 0, n, at(5_000 * n), at(5_000 * n + 5_000), 9, 0, 0.0, 0.0, *spent) for n in (0, 1)
    ]
    health = StreamHealth(0, 0, NODE_NAME, "ended", 2, 1, 1, 1, 0, 0, {})
    writer.write([batch(1, "0:0", steps=counts, health=health)])
    looks = [
        thread(0, 0, 5_000, ran_us=4_000_000),
        thread(0, 5_000, 10_000, ran_us=2_500_000, waited_us=2_500_000),
    ]
    names = [ThreadName(100, 100, "app", 0, 0, 0, "0-1")]
    made = [samples([row], names=names, is_sum=True) for row in looks]
    sums = [
        msgspec.structs.replace(one, threads=one.looks, looks=b"", sequence=number)
        for number, one in enumerate(made)
    ]
    writer.write_samples(map(packed, sums))
    first, second = step_times(provenance).times
    assert parts(first) == pytest.approx([1e6, 3e6, 0, 0, 1e6, 0])
    assert parts(second) == pytest.approx([1e6, 1.5e6, 0, 0, 0, 2.5e6])
