"""A call waited for a message that another rank sent late."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.kinds.waitedfor import last_of, waited_for, waited_for_known
from chimbuko.core.calls.record import Message
from chimbuko.core.calls.waiting import Waits


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, if the call receives messages; for the sender of the one of them that was sent last."""
    if flag.waits is not Waits.RECEIVE:
        return
    received = [message for message in flag.messages if message.kind == "RECV"]
    came: dict[int, int] = {}
    for message in received:
        time_us = sent_us(message, flag, scene)
        if time_us is not None:
            came[message.source] = max(came.get(message.source, time_us), time_us)
    last = last_of(came, flag)
    if last is not None:
        yield from waited_for_known(Kind.LATE_SENDER, flag, scene, *last)
        return
    # Who is known to have sent in time held nobody up.
    senders = {message.source for message in received} - {flag.rank, *came}
    yield from waited_for(Kind.LATE_SENDER, flag, scene, senders)


def sent_us(message: Message, flag: Flag, scene: Scene) -> int | None:
    """When a message that a call received was sent, on the common clock; None where that is not on record."""
    time_us = scene.ends.sent_us(flag.program, message)
    return None if time_us is None else scene.common_us(flag.program, message.source, time_us)
