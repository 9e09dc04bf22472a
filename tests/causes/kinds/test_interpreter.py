"""Causes that lie in Python itself, by the counters of its tracer."""

from __future__ import annotations

import pytest

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.kinds.registry import cause_of
from chimbuko.causes.kinds.split import main_part, split
from chimbuko.causes.part import Part
from chimbuko.core.pauses import Pause, pause_of
from chimbuko.monitor.procfs.systemcalls import CONDITION, NAP
from chimbuko.monitor.sampling.nodebatch import NodeBatch
from tests.causes.flagged import record
from tests.causes.nodes import batch, ticks


def main(*counters: tuple[str, int], samples: NodeBatch | None = None) -> Part:
    """Main part of a call that lost 199 ms."""
    one, evidence = flag_of(record("step", 1, 0, 200, counters=counters)), Evidence()
    evidence.put(one)
    if samples is not None:
        evidence.put_samples(samples)
    return main_part(split(one, evidence))


def said(part: Part) -> str:
    return cause_of(part.kind).clause(part, 1)


@pytest.mark.parametrize(
    ("counter", "kind", "clause"),
    [
        (
            Pause.COLLECTION.counter("generation 2"),
            "garbage collection",
            "as Python collected garbage for 150 ms (generation 2)",
        ),
        (Pause.IMPORT.counter("numpy"), "import", "as it imported numpy for 150 ms"),
        (
            Pause.LOCK.counter("lock, held by app.update"),
            "waited for lock",
            "as it waited 150 ms for a lock (lock, held by app.update)",
        ),
        (
            Pause.INTERPRETER.counter("app.spin"),
            "waited for interpreter",
            "as it waited 150 ms for the interpreter (GIL), which app.spin had in another thread",
        ),
    ],
)
def test_a_pause_is_why_a_call_was_slow(counter: str, kind: str, clause: str) -> None:
    # Several looks, or collections, count together; another counter is no pause.
    part = main((counter, 100_000), (counter, 50_000), ("Heap", 10**9))
    assert (part.kind, said(part)) == (kind, clause)
    assert main((counter, 10_000)).kind == "own code"


def test_a_wait_for_a_lock_is_as_long_as_its_thread_slept() -> None:
    slept = batch(ticks(1, 0, 200, ran_us=0, state=b"S", call=CONDITION))
    part = main((Pause.LOCK.counter("lock"), 50_000), samples=slept)
    assert part.kind == "waited for lock" and part.lost_us == pytest.approx(199_000)


def test_who_sleeps_by_itself_waits_for_nobody_and_says_where() -> None:
    slept = batch(ticks(1, 0, 200, ran_us=0, state=b"S", call=NAP))
    place, busy = Pause.STANDING.counter("time.sleep"), Pause.INTERPRETER.counter("app.spin")
    part = main((place, 50_000), (busy, 100_000), samples=slept)
    assert (part.kind, said(part)) == ("asleep", "as it slept 199 ms in time.sleep (poll or select)")


def test_other_counters_are_no_pauses() -> None:
    assert pause_of("Import: numpy.linalg") == (Pause.IMPORT, "numpy.linalg")
    assert [pause_of(name) for name in ("Imports: 3", "Bytes Read <file=/a: b>", "Import")] == [
        None,
        None,
        (Pause.IMPORT, ""),
    ]
