"""Each cause that lies in the node, by the smallest samples that show it, and by some that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.systemcalls import FILES, LOCKS, SOCKETS
from chimbuko.causes.nodekinds import (
    heldlock,
    memorypressure,
    migration,
    pagefaults,
    stopped,
    storage,
    systemtime,
    waitedforcore,
)
from chimbuko.causes.split import split
from chimbuko.monitor.samples.nodebatch import NodeBatch, ThreadName
from tests.causes.flagged import at, flag
from tests.causes.nodes import batch, names, other, thread, ticks

Parts = Callable[[Flag, Scene], Iterator[Part]]
SLOW = flag("compute", 1, 0, 200)
"""199 ms too long."""
ORDINARY = batch(ticks(1, 0, 200))
"""It computed all the time."""


def found(parts: Parts, samples: NodeBatch, one: Flag = SLOW) -> list[Part]:
    scene = Scene()
    scene.put(one)
    scene.put_samples(samples)
    return list(parts(one, scene))


@pytest.mark.parametrize(
    "parts",
    [
        stopped.parts,
        waitedforcore.parts,
        pagefaults.parts,
        memorypressure.parts,
        migration.parts,
        storage.parts,
        heldlock.parts,
        systemtime.parts,
    ],
)
def test_a_thread_that_computes_has_none_of_these_causes(parts: Parts) -> None:
    assert found(parts, ORDINARY) == []
    # Nor has one of which nothing is known.
    assert found(parts, batch(ticks(2, 0, 200), names=names(1))) == []


def test_stopped_is_the_time_in_state_t() -> None:
    still = ticks(1, 20, 180, state=b"T", ran_us=0)
    (part,) = found(stopped.parts, batch([*ticks(1, 0, 20), *still, *ticks(1, 180, 200)]))
    assert (part.kind, part.lost_us) == (Kind.STOPPED, 160_000)


def test_who_ran_on_the_core_meanwhile_took_it() -> None:
    waiting = ticks(1, 0, 200, ran_us=4_000, waited_us=16_000, core=1)
    (part,) = found(waitedforcore.parts, batch(waiting, [other(-100, 300, 1, 350), other(-9, 300, 0, 300)]))
    assert (part.kind, part.lost_us, part.by, part.is_foreign, part.core) == (
        Kind.WAITED_FOR_CORE,
        160_000,
        "spinner (root, process 4711)",
        True,
        1,
    )
    (part,) = found(waitedforcore.parts, batch([*waiting, *ticks(2, 0, 200, core=1)]))
    assert (part.by, part.is_foreign) == ("rank 2", False)
    (part,) = found(waitedforcore.parts, batch([*waiting, *ticks(2, 0, 200, core=0)]))
    assert (part.by, part.core) == ("", None)


def test_a_wait_that_polls_on_a_shared_core_is_a_wait_all_the_same() -> None:
    polling = ticks(1, 0, 200, ran_us=10_000, waited_us=10_000)
    assert found(waitedforcore.parts, batch(polling), flag("MPI_Allreduce()", 1, 0, 200)) == []


def test_page_faults_take_time_in_the_kernel() -> None:
    (part,) = found(pagefaults.parts, batch(ticks(1, 0, 200, minor_faults=20_000, system_us=18_000)))
    assert (part.kind, part.lost_us, part.count) == (Kind.PAGE_FAULTS, 180_000, 200_000)
    assert found(pagefaults.parts, batch(ticks(1, 0, 200, minor_faults=50, system_us=18_000))) == []


def test_memory_is_short_where_pages_are_read_back_or_the_group_has_none_left() -> None:
    (part,) = found(memorypressure.parts, batch(ticks(1, 0, 200, major_faults=150, ran_us=0, state=b"D")))
    assert (part.kind, part.lost_us, part.count) == (Kind.MEMORY, 150_000, 1_500)
    full = (at(0), 1_000_000, 0, 0, 0, 180_000, 0, 0, 99, 100)
    (part,) = found(memorypressure.parts, batch(ticks(1, 0, 200, system_us=15_000), states=[full]))
    assert (part.kind, part.lost_us) == (Kind.MEMORY, 180_000)


def test_a_thread_that_is_always_on_another_core_is_moved_all_the_time() -> None:
    (part,) = found(migration.parts, batch(ticks(1, 0, 200, migrations=1, system_us=12_000)))
    assert (part.kind, part.count) == (Kind.MIGRATION, 10)
    # Moved once, or at no cost, it computes.
    assert found(migration.parts, batch(ticks(1, 0, 200, migrations=1))) == []


def test_what_a_thread_sleeps_in_says_what_it_waits_for() -> None:
    def asleep(calls: frozenset[int], state: bytes = b"S") -> NodeBatch:
        return batch(ticks(1, 0, 200, ran_us=0, state=state, call=min(calls)))

    assert [part.kind for part in found(storage.parts, asleep(FILES))] == [Kind.STORAGE]
    assert [part.kind for part in found(storage.parts, asleep(LOCKS, b"D"))] == [Kind.STORAGE]
    assert [part.kind for part in found(storage.parts, asleep(SOCKETS))] == [Kind.NETWORK]
    assert found(storage.parts, asleep(LOCKS)) == []
    assert [part.kind for part in found(heldlock.parts, asleep(LOCKS))] == [Kind.HELD_LOCK]
    assert found(heldlock.parts, asleep(FILES)) == []


def test_a_lock_is_held_by_the_thread_that_runs_meanwhile() -> None:
    sleeping = ticks(1, 0, 200, ran_us=0, state=b"S", call=min(LOCKS))
    holder, idle = ThreadName(101, 900, "holder", 0, 1, -1), ThreadName(101, 901, "idle", 0, 1, -1)
    running = [*ticks(1, 0, 200, tid=900), *ticks(1, 0, 200, tid=901, ran_us=0)]
    (part,) = found(heldlock.parts, batch([*sleeping, *running], names=[*names(), holder, idle]))
    assert (part.lost_us, part.by) == (200_000, "holder")


def test_system_time_is_a_cause_where_it_is_much() -> None:
    (part,) = found(systemtime.parts, batch(ticks(1, 0, 200, system_us=15_000)))
    assert (part.kind, part.lost_us) == (Kind.SYSTEM_TIME, 150_000)
    assert found(systemtime.parts, batch(ticks(1, 0, 200, system_us=2_000))) == []


def test_a_sample_of_a_second_explains_a_short_call_in_it_at_most() -> None:
    second = thread(1, -300, 700, waited_us=150_000, ran_us=850_000)
    (part,) = found(waitedforcore.parts, batch([second]))
    assert part.lost_us == 150_000
    scene = Scene()
    scene.put(SLOW)
    scene.put_samples(batch([second]))
    assert [(one.kind, one.lost_us) for one in split(SLOW, scene)] == [
        (Kind.WAITED_FOR_CORE, 150_000),
        (Kind.OWN_CODE, 49_000),
    ]
