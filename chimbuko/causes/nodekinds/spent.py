"""A call took longer because of what its thread did in the kernel, or was asleep for."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import HELD_UP, Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.nodekinds.division import LEAST_SHARE, divided

HOLDER_SHARE = 0.4
"""Of the wait for a lock, that another thread must have run for to be named: who holds one may sleep, too."""


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """Each of these that is no small part of it; none of a wait for other ranks, in which threads sleep."""
    seen = scene.seen(flag)
    if seen is None or flag.is_wait:
        return
    counts = {
        Kind.MEMORY: seen.major_faults,
        Kind.PAGE_FAULTS: seen.minor_faults,
        Kind.MIGRATION: seen.moves,
    }
    for kind, lost_us in divided(seen, scene.nodes.group(flag), flag.excess_us).items():
        if kind not in HELD_UP and lost_us >= LEAST_SHARE * flag.excess_us:
            is_lock = kind is Kind.HELD_LOCK
            runs = scene.nodes.siblings(flag, HOLDER_SHARE * lost_us)[:1] if is_lock else ()
            yield Part(kind, lost_us, by="".join(runs), count=round(counts.get(kind, 0)))
