"""A call that sends was held up because another rank was late to receive."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.kinds.waitedfor import waited_for
from chimbuko.core.calls.waiting import Waits


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, if the call sends until the message is taken; for the rank that it sent to."""
    if flag.waits is Waits.SEND:
        receivers = {message.destination for message in flag.messages if message.kind == "SEND"} - {flag.rank}
        yield from waited_for(Kind.LATE_RECEIVER, flag, scene, receivers)
