"""Causes that lie in other ranks, or other threads of the same one: a call waited for one that sent,
received or came late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from chimbuko.causes.evidence.evidence import SLACK_US, Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.part import Part
from chimbuko.core.calls.record import Message
from chimbuko.core.calls.waiting import Waits, is_receive_only

LATE_SHARE = 0.25
"""Share of a wait's excess: a rank that came less late was in time."""


def late_sender(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a call that receives messages, for the sender of the one that was sent last."""
    if flag.waits is not Waits.RECEIVE:
        return
    received = [message for message in flag.messages if message.kind == "RECV"]
    came: dict[int, int] = {}
    for message in received:
        time_us = _sent_us(message, flag, evidence)
        if time_us is not None:
            came[message.source] = max(came.get(message.source, time_us), time_us)
    last = _last_of(came, flag)
    if last is not None:
        yield from _waited_for_known(LATE_SENDER, flag, evidence, *last)
        return
    # Who is known to have sent in time held nobody up.
    senders = {message.source for message in received} - {flag.rank, *came}
    yield from _waited_for(LATE_SENDER, flag, evidence, senders)


def late_receiver(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a call that sends until its message is taken, for the receiver."""
    if flag.waits is Waits.SEND:
        receivers = {message.destination for message in flag.messages if message.kind == "SEND"} - {flag.rank}
        yield from _waited_for(LATE_RECEIVER, flag, evidence, receivers)


def late_at_collective(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a call in a collective operation, for the rank that is known to have come last.

    Otherwise for any other rank that lost time meanwhile, which is marked as a guess; or for the only one
    that does not wait itself.
    """
    if flag.waits is not Waits.COLLECTIVE:
        return
    last = _last_of(_came_us(flag, evidence), flag) if flag.collectives else None
    if last is not None and _ended_it(last[1], flag):
        yield from _waited_for_known(LATE_AT_COLLECTIVE, flag, evidence, *last)
        return
    members = set[int]()
    for operation in flag.collectives:
        members |= evidence.communication.members(flag.program, operation) - {flag.rank}
    found = list(_waited_for(LATE_AT_COLLECTIVE, flag, evidence, members if len(members) > 1 else ()))
    if not found:
        found = list(_by_who_waits(flag, evidence))
    yield from (msgspec.structs.replace(part, is_matched=False) for part in found)


def slow_operation(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the time of an operation after all ranks had come, where that is on record: the data took long,
    or the cores were not free.
    """
    begun_us: int | None = None
    if flag.waits is Waits.COLLECTIVE:
        if not flag.collectives and evidence.culprit(flag) is not None:
            # To look for all that wait at the same time costs most of all, and here it is known for whom.
            return
        came = _came_us(flag, evidence)
        if evidence.ranks[flag.program] <= {flag.rank, *came}:
            begun_us = max(came.values(), default=None)
    elif is_receive_only(flag.function):
        times = [_sent_us(message, flag, evidence) for message in flag.messages if message.kind == "RECV"]
        known = [time_us for time_us in times if time_us is not None]
        if known and len(known) == len(times):
            begun_us = max(known)
    if begun_us is not None:
        yield Part(SLOW_OPERATION.id, flag.common_exit_us - max(begun_us, flag.common_entry_us))


def _sent_us(message: Message, flag: Flag, evidence: Evidence) -> int | None:
    """Return when a message that a call received was sent, on the common clock; None if not on record."""
    time_us = evidence.communication.sent_us(flag.program, message)
    return None if time_us is None else evidence.common_us(flag.program, message.source, time_us)


def _came_us(flag: Flag, evidence: Evidence) -> dict[int, int]:
    """Return when other ranks came, on the common clock, as far as it is known.

    Where a trace has no numbers of operations, those are taken for one in which ranks wait at the same time.
    """
    came = {}
    for operation in flag.collectives:
        for rank, time_us in evidence.communication.entered_us(flag.program, operation).items():
            came[rank] = evidence.common_us(flag.program, rank, time_us)
    if not flag.collectives:
        for other in evidence.together(flag):
            came[other.rank] = max(other.common_entry_us, came.get(other.rank, 0))
    return came


def _by_who_waits(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait by elimination: for the one rank that does not wait, or if all do, for the last one."""
    came = _came_us(flag, evidence)
    missing = evidence.ranks[flag.program] - {flag.rank, *came}
    if len(missing) == 1 and came:
        yield from _waited_for(LATE_AT_COLLECTIVE, flag, evidence, missing)
    elif not missing:
        last = _last_of(came, flag)
        if last is not None:
            yield from _waited_for_known(LATE_AT_COLLECTIVE, flag, evidence, *last)


def _ended_it(came_us: int, flag: Flag) -> bool:
    """Whether the operation went on no longer than until then; otherwise an unknown rank came later."""
    return flag.common_exit_us - came_us <= LATE_SHARE * flag.excess_us + SLACK_US


def _last_of(came_us: Mapping[int, int], flag: Flag) -> tuple[int, int] | None:
    """Return the rank that came last, and when, on the common clock; None if none came late."""
    late_us = flag.common_entry_us + LATE_SHARE * flag.excess_us
    late = {rank: time_us for rank, time_us in came_us.items() if rank != flag.rank and time_us > late_us}
    return max(late.items(), key=lambda one: (one[1], one[0])) if late else None


def _waited_for_known(
    cause: Cause, flag: Flag, evidence: Evidence, rank: int, came_us: int
) -> Iterator[Part]:
    """Yield the part of a wait for a rank whose time of arrival on the common clock is known."""
    culprit = evidence.culprit(flag, {rank}, came_us)
    late_us = min(flag.excess_us, came_us - flag.common_entry_us)
    if culprit is not None:
        lost_us = min(late_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(cause.id, lost_us, culprit.function, rank, culprit.id)
        return
    # A rank that was held up itself by less than is recorded passes on what held it up.
    culprit = evidence.culprit(flag)
    if culprit is not None:
        lost_us = min(late_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(cause.id, lost_us, culprit.function, culprit.rank, culprit.id, False)
    else:
        yield Part(cause.id, late_us, rank=rank)


def _waited_for(cause: Cause, flag: Flag, evidence: Evidence, partners: Collection[int]) -> Iterator[Part]:
    """Yield the part of a wait that another rank explains.

    Parameters
    ----------
    partners
        Ranks that the call exchanged messages with; empty if none are on record, or it may be any rank.
    """
    culprit = evidence.culprit(flag, partners) if partners else None
    is_matched = culprit is not None
    if culprit is None:
        # A partner that was held up itself by less than is recorded passes on what held it up.
        culprit = evidence.culprit(flag)
    if culprit is not None:
        lost_us = min(flag.excess_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(cause.id, lost_us, culprit.function, culprit.rank, culprit.id, is_matched)
    elif len(partners) == 1 and not evidence.is_held_up(flag):
        yield Part(cause.id, flag.excess_us, rank=next(iter(partners)))


LATE_SENDER = Cause(
    id="late sender",
    colour="ranks",
    text="waiting for a message from {rank}{meanwhile}",
    is_wait=True,
    find=late_sender,
)
LATE_RECEIVER = Cause(
    id="late receiver",
    colour="ranks",
    text="until {rank} took its message{meanwhile}",
    is_wait=True,
    find=late_receiver,
)
LATE_AT_COLLECTIVE = Cause(
    id="late at collective",
    colour="ranks",
    text="waiting for {rank}, the last to enter{meanwhile}",
    is_wait=True,
    find=late_at_collective,
)
SLOW_OPERATION = Cause(
    id="slow operation",
    colour="ranks",
    text="in the MPI operation itself, after all ranks had entered it",
    find=slow_operation,
)


# Cause that lies in another thread of the same rank: a call waited for it at a barrier.


def late_thread(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the wait of a thread for the one that came last, or whose call lost as much time meanwhile."""
    if flag.waits is not Waits.THREADS:
        return
    last = _last_thread(flag, evidence)
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
            named_thread(culprit.thread),
        )
    elif last is not None:
        yield Part(LATE_THREAD.id, late_us, by=named_thread(last[0]))


def named_thread(number: int) -> str:
    """Return a thread in words."""
    return f"thread {number}"


def _last_thread(flag: Flag, evidence: Evidence) -> tuple[int, int] | None:
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
