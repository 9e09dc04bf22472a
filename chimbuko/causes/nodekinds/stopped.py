"""A call took longer because its process had been stopped."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

LEAST_SHARE = 0.2
"""Of the excess."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long its thread stood still in state T."""
    seen = scene.seen(flag)
    if seen is not None and seen.stopped_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.STOPPED, seen.stopped_us)
