"""A call took longer because of the GPU that its process uses: that was slowed down, or had more to do."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.nodescene import GpuSeen
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

THROTTLED, BUSY = 0.5, 0.8
"""Shares of the time that was lost, from which on it is a cause ..."""
MORE = 0.3
"""... where it is so much more than usual. What is always so makes no call slower than others."""
AT_WORK = 0.2
"""Share of the time in which something ran on a GPU that may have slowed down a call."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The one GPU that may explain most of it."""
    if flag.is_wait:
        return
    found = [part for one in scene.nodes.gpus(flag) if (part := _part(flag, one)) is not None]
    if found:
        yield max(found, key=lambda part: (part.kind is Kind.GPU_THROTTLED, part.lost_us))


def _part(flag: Flag, seen: GpuSeen) -> Part | None:
    now, usual, by = seen.now, seen.usual, f"GPU {seen.number}"
    if now.throttled >= max(THROTTLED, usual.throttled + MORE) and now.busy >= AT_WORK:
        return Part(Kind.GPU_THROTTLED, now.throttled * flag.excess_us, by=by)
    if now.busy >= max(BUSY, usual.busy + MORE):
        shared = seen.foreign
        return Part(Kind.GPU_BUSY, now.busy * flag.excess_us, by=by, is_foreign=shared > 0, count=shared)
    return None
