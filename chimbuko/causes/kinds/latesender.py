"""A call waited for a message that another rank sent late."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.waiting import Waits
from chimbuko.causes.kinds.waitedfor import waited_for


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, if the call receives messages; for the sender of one of those that it received."""
    if flag.waits is Waits.RECEIVE:
        senders = {message.source for message in flag.messages if message.kind == "RECV"} - {flag.rank}
        yield from waited_for(Kind.LATE_SENDER, flag, scene, senders)
