"""Causes that lie in the calls that a call makes: one of them took longer, or began later."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import GAP_SHARE, Flag
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.kinds.rest import off_core_us
from chimbuko.causes.part import Part
from chimbuko.causes.wording import duration
from chimbuko.core.calls.functionnames import short_name
from chimbuko.core.calls.waiting import is_communication


def in_child(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield what flagged calls inside a call lost, where calls are judged with what is inside them."""
    if flag.is_exclusive:
        return
    for inner in evidence.inside(flag):
        if inner.ancestors[0][0] == flag.id:
            yield Part(IN_CHILD.id, inner.excess_us, inner.function, None, inner.id)


def late_child(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the gap before a call of a function of the program, if most of the excess lies there, and its
    thread ran meanwhile, as far as that is known.
    """
    if flag.is_wait or not flag.has_all_children:
        return
    gap_us = flag.lost_to_us - flag.lost_from_us - off_core_us(flag, evidence)
    late = next((child for child in flag.children if child.entry_us == flag.lost_to_us), None)
    if late is not None and gap_us >= GAP_SHARE * flag.excess_us and not is_communication(late.function):
        yield Part(LATE_CHILD.id, gap_us, late.function)


IN_CHILD = Cause(
    id="in child",
    colour="program",
    text="inside {function}",
    find=in_child,
    clause=lambda part, rank: f"{duration(part.lost_us)} of it in {short_name(part.function)}",
)
LATE_CHILD = Cause(
    id="late child",
    colour="program",
    text="before it called {function}",
    find=late_child,
    clause=lambda part, rank: f"{duration(part.lost_us)} of it before it called {short_name(part.function)}",
)
