"""Split of what a call took too long into parts that add up to it, each with its cause."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.kinds.cause import Finder
from chimbuko.causes.kinds.registry import CAUSES, IN_NODE, plugin_causes
from chimbuko.causes.kinds.rest import NOT_EXPLAINED
from chimbuko.causes.part import Part

IN_NODE_SHARE = 0.5
"""Share of a call's excess that its node must explain to be why it was slow."""


@cache
def _asked() -> tuple[Finder, ...]:
    """Return what a call is asked for, in order. What several causes are found by is asked once, at the place
    of the first of them.
    """
    causes = (*plugin_causes(), *CAUSES)
    finders = dict.fromkeys(cause.find for cause in causes if cause.find is not None)
    return (*finders, *(cause.claim for cause in causes if cause.claim is not None))


def split(flag: Flag, evidence: Evidence) -> list[Part]:
    """Return the parts of a call's excess, as causes explain it one after the other."""
    left_us = flag.excess_us
    found = []
    for parts in _asked():
        if left_us <= 0.0:
            break
        for part in parts(flag, evidence):
            lost_us = min(part.lost_us, left_us)
            if lost_us > 0.0:
                found.append(replace(part, lost_us=lost_us))
                left_us -= lost_us
    if left_us > 0.0 or not found:
        found.append(Part(NOT_EXPLAINED.id, left_us))
    return found


def main_part(parts: Sequence[Part]) -> Part:
    """Return the part that explains most; none in the node where these together are less than the others."""
    if len(parts) == 1:
        return parts[0]
    in_node_us = sum(part.lost_us for part in parts if part.kind in IN_NODE)
    is_in_node = in_node_us >= IN_NODE_SHARE * sum(part.lost_us for part in parts)
    named = [part for part in parts if is_in_node or part.kind not in IN_NODE]
    return max(named, key=lambda part: part.lost_us)
