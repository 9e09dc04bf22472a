"""Cause that lies in another thread of the same rank: a call waited for it at a barrier."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.peers import LATE_SHARE
from chimbuko.causes.part import Part
from chimbuko.core.calls.waiting import Waits


def late_thread(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a thread for the one that came last, or whose call lost as much time meanwhile."""
    if flag.waits is not Waits.THREADS:
        return
    last = _last_of(flag, evidence)
    culprit = evidence.slow_thread(flag, None if last is None else last[0])
    late_us = flag.excess_us if last is None else min(flag.excess_us, last[1] - flag.entry_us)
    if culprit is not None:
        lost_us = min(late_us, flag.overlap_us(culprit))
        yield Part(
            LATE_THREAD.id,
            lost_us,
            culprit.function,
            None,
            culprit.id,
            last is not None,
            thread(culprit.thread),
        )
    elif last is not None:
        yield Part(LATE_THREAD.id, late_us, by=thread(last[0]))


def thread(number: int) -> str:
    """Return a thread in words."""
    return f"thread {number}"


def _last_of(flag: Flag, evidence: Evidence) -> tuple[int, int] | None:
    """Return the thread that is known to have come last, and when, on the clock of its rank; None if nobody
    is known to have come late.
    """
    came_us: dict[int, int] = {}
    for barrier in flag.collectives:
        came_us |= evidence.communication.arrived_us(flag.program, barrier)
    late_us = flag.entry_us + LATE_SHARE * flag.excess_us
    late = [(time_us, one) for one, time_us in came_us.items() if one != flag.thread and time_us > late_us]
    if not late:
        return None
    time_us, last = max(late)
    return last, time_us


LATE_THREAD = Cause(
    id="late thread",
    colour="program",
    text="waiting for {by|another thread}, the last to come[, which was in {function}]",
    is_wait=True,
    find=late_thread,
)
