"""A call took longer because of the time that the kernel took for its system calls."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

LEAST_SHARE = 0.4
"""Of the excess."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What of the excess it spent in the kernel, where that is much."""
    seen = scene.seen(flag)
    if seen is not None and not flag.is_wait and seen.system_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.SYSTEM_TIME, seen.system_us)
