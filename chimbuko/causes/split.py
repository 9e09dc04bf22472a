"""Splits what a call took too long into parts that add up to it."""

from __future__ import annotations

import msgspec

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.causes.kinds.registry import CAUSES


def split(flag: Flag, scene: Scene) -> list[Part]:
    """Parts of a call's excess, as causes explain it one after the other; what is left is not explained."""
    left_us = flag.excess_us
    found = []
    for parts in CAUSES:
        if left_us <= 0.0:
            break
        for part in parts(flag, scene):
            lost_us = min(part.lost_us, left_us)
            if lost_us > 0.0:
                found.append(msgspec.structs.replace(part, lost_us=lost_us))
                left_us -= lost_us
    if left_us > 0.0 or not found:
        found.append(Part(Kind.NOT_EXPLAINED, left_us))
    return found
