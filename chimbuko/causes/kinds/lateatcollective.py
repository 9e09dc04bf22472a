"""A call waited in a collective operation for the rank that came last."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.evidence.waiting import Waits
from chimbuko.causes.kinds.waitedfor import waited_for


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The wait, if the call is part of a collective operation; for any other rank."""
    if flag.waits is Waits.COLLECTIVE:
        yield from waited_for(Kind.LATE_AT_COLLECTIVE, flag, scene, ())
