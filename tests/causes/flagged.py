"""Flagged calls made by hand: times in ms from the beginning of a story."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chimbuko.causes.evidence.flag import Flag, flag_of
from chimbuko.core.calls.record import (
    CallRecord,
    Collective,
    CounterValue,
    Message,
    StackFrame,
    WindowCall,
    call_id,
)
from tests.sample_records import make_record

BEGIN_US = 1_700_000_000_000_000
USUAL_MS = 1.0
COMMUNICATOR = 17
AFTER = "0:0:1:80000"
"""A neighbour."""


def record(
    function: str,
    rank: int,
    begin_ms: float,
    end_ms: float,
    *,
    row: int = 0,
    usual_ms: float = USUAL_MS,
    received_from: Sequence[int] = (),
    sent_to: Sequence[int] = (),
    children: Sequence[tuple[str, float, float]] = (),
    inside: Sequence[tuple[str, str]] = (),
    is_inclusive: bool = False,
    number: int = 0,
    sends_after: Sequence[tuple[int, float]] = (),
    enters: Sequence[tuple[int, float]] = (),
    is_gpu: bool = False,
    metrics: Sequence[tuple[str, int]] = (),
    counters: Sequence[tuple[str, int]] = (),
) -> CallRecord:
    """A record of a call with the children and messages that are named, and of the calls around it.

    ``number`` is that of its messages on their channels; ``sends_after`` are messages of neighbours, to whom
    and when, ``enters`` collective operations by number and time, of the call itself if it is then open.
    """
    entry_us, exit_us = at(begin_ms), at(end_ms)
    own = call_id(0, rank, 1, row or int(begin_ms * 10) + 1)
    exclusive_us = exit_us - entry_us - sum(at(end) - at(begin) for _, begin, end in children)
    judged_us = exit_us - entry_us if is_inclusive else exclusive_us
    usual_us = usual_ms * 1000
    on = COMMUNICATOR if number else 0, number
    messages = [Message("RECV", other, rank, 7, 1024, exit_us - 1, own, *on) for other in received_from]
    messages += [Message("SEND", rank, other, 7, 1024, entry_us + 1, own, *on) for other in sent_to]
    messages += [
        Message("SEND", rank, other, 7, 1024, at(time_ms), AFTER, *on) for other, time_ms in sends_after
    ]
    collectives = [
        Collective(COMMUNICATOR, which, rank, 8, at(time_ms), own if begin_ms <= time_ms < end_ms else AFTER)
        for which, time_ms in enters
    ]
    window = [
        WindowCall(f"0:{rank}:1:{90_000 + n}", name, at(begin), at(end), own, 3, False)
        for n, (name, begin, end) in enumerate(children)
    ]
    return make_record(
        id=own,
        rank=rank,
        function=function,
        entry_us=entry_us,
        exit_us=exit_us,
        inclusive_us=exit_us - entry_us,
        exclusive_us=exclusive_us,
        expected_us=usual_us,
        severity_us=judged_us - usual_us,
        children=len(children),
        call_stack=[
            StackFrame(own, function, entry_us, exit_us, True),
            *(StackFrame(identity, name, 0, 0, False) for identity, name in inside),
        ],
        window=[WindowCall(own, function, entry_us, exit_us, "", 2, True), *window],
        messages=messages,
        collectives=collectives,
        is_gpu=is_gpu,
        counters=[CounterValue(name, value, entry_us, own) for name, value in counters],
        metrics=[CounterValue(name, value, exit_us, own) for name, value in metrics],
    )


def flag(function: str, rank: int, begin_ms: float, end_ms: float, **more: Any) -> Flag:
    """The same as a flag."""
    return flag_of(record(function, rank, begin_ms, end_ms, **more))


def at(ms: float) -> int:
    """A time of the story, in µs since the epoch."""
    return BEGIN_US + round(ms * 1000)
