"""A call took longer because memory was short."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

LEAST_SHARE = 0.3
"""Of the excess."""
FULL = 0.95
"""Of the memory that its control group may use: from there on pages are made free for others."""
MAJOR_FAULT_US = 100.0
"""What it takes at least to read a page from storage."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """What reading pages back took, or making others free where its control group has used up what it may."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait:
        return
    read_us = MAJOR_FAULT_US * seen.major_faults
    freed_us = 0.0
    if seen.group_share >= FULL:
        freed_us = max(seen.memory_stall_us, seen.system_us)
        read_us += seen.device_us if seen.major_faults else 0.0
    lost_us = min(max(read_us, freed_us, seen.memory_stall_us), flag.excess_us)
    if lost_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.MEMORY, lost_us, count=round(seen.major_faults))
