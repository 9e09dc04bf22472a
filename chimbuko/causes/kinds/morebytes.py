"""A call that moves data took longer because there was more of it than usual."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.core.calls.waiting import Waits

CLEARLY = 2.0
"""Times as many bytes as an ordinary call of the function moves."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What the further bytes took, at the speed of an ordinary call; who sent them, if this receives them."""
    ordinary = scene.ordinary(flag)
    if ordinary is None or not ordinary.size_bytes:
        return
    ratio = flag.size_bytes / ordinary.size_bytes
    if ratio < CLEARLY:
        return
    lost_us, sender = (ratio - 1) * flag.expected_us, _sender(flag, scene)
    if sender is None:
        yield Part(Kind.MORE_BYTES, lost_us)
    else:
        yield Part(Kind.MORE_BYTES, lost_us, sender.function, sender.rank, sender.id)


def _sender(flag: Flag, scene: Scene) -> Flag | None:
    """The flagged call in which another rank sends what this one receives meanwhile."""
    if flag.waits is not Waits.RECEIVE:
        return None
    sources = {message.source for message in flag.messages if message.kind == "RECV"} - {flag.rank}
    for other in scene.during(flag.program, flag.common_entry_us, flag.common_exit_us):
        if other.waits is Waits.SEND and other.rank in sources and other.size_bytes >= flag.size_bytes:
            return other
    return None
