"""A call went on to the next function that it calls later than usual."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.flag import GAP_SHARE, Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene
from chimbuko.core.calls.waiting import is_communication


def parts(flag: Flag, scene: Scene) -> Iterator[Part]:
    """The gap before a call of a function of the program, if most of the excess lies there."""
    if flag.is_wait or not flag.has_all_children:
        return
    gap_us = flag.lost_to_us - flag.lost_from_us
    late = next((child for child in flag.children if child.entry_us == flag.lost_to_us), None)
    if late is not None and gap_us >= GAP_SHARE * flag.excess_us and not is_communication(late.function):
        yield Part(Kind.LATE_CHILD, gap_us, late.function)
