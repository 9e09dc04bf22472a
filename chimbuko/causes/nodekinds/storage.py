"""A call took longer because it waited for a device, a file system, a socket or a pipe."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.systemcalls import FILES, SOCKETS

LEAST_SHARE = 0.3
"""Of the excess."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long it slept in reading, writing and the like, or could not be woken."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait:
        return
    stored_us = seen.device_us + sum(us for call, us in seen.asleep_us.items() if call in FILES)
    if stored_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.STORAGE, stored_us)
    sent_us = sum(us for call, us in seen.asleep_us.items() if call in SOCKETS)
    if sent_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.NETWORK, sent_us)
