"""A call took longer because another thread of its process held a lock that it wanted."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.systemcalls import LOCKS

LEAST_SHARE = 0.3
"""Of the excess."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long it slept for a lock; and which other thread of its process ran meanwhile."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait:
        return
    asleep_us = sum(us for call, us in seen.asleep_us.items() if call in LOCKS)
    if asleep_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.HELD_LOCK, asleep_us, by=seen.siblings[0] if seen.siblings else "")
