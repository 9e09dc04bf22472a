"""A call took longer because its thread was moved from core to core."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

LEAST_MOVES = 3
LEAST_SHARE = 0.3
"""Of the looks at it: found on another core than before so often, it is moved all the time."""
LEAST_SYSTEM_SHARE = 0.3
"""Of the excess, in the kernel or waiting: a move itself is that."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The time in the kernel and on no core, where it was moved all the time."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait or not seen.is_fine or seen.moves < LEAST_MOVES:
        return
    idle_us = max(0.0, seen.length_us - seen.ran_us)
    moved_us = seen.system_us + idle_us
    if seen.moves >= LEAST_SHARE * seen.looks and moved_us >= LEAST_SYSTEM_SHARE * flag.excess_us:
        yield Part(Kind.MIGRATION, moved_us, count=seen.moves)
