"""A call took longer because the kernel had to give it memory, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

FAULT_US = 0.25
"""What a page fault takes at least, on today's machines; with clearing the page it is rather 1 µs."""
LEAST_SHARE = 0.1
"""Of the excess that so many of them would take at least."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The time in the kernel, where page faults are what brought it there."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait:
        return
    least_us = FAULT_US * seen.minor_faults
    if least_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.PAGE_FAULTS, max(seen.system_us, least_us), count=round(seen.minor_faults))
