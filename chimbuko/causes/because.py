"""What of their node calls that recur lost their time by, where that is the same for most of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from chimbuko.causes.evidence.nodescene import NodeScene
from chimbuko.causes.evidence.part import OF_NODE, Kind, Part
from chimbuko.causes.recurrence import Recurrence

MOST = 0.5
"""Of what was lost, by one kind of cause; and of what that took, by one process."""

Lost = Counter[tuple[Kind, str]]
"""µs by the kind of cause, and by who took the core where that was no process of the program."""


def lost_by(parts: Iterable[Part]) -> Lost:
    """What a call lost, or several."""
    lost: Lost = Counter()
    for part in parts:
        lost[part.kind, part.by if part.is_foreign else ""] += round(part.lost_us)
    return lost


def because(found: Recurrence, lost: Lost, nodes: NodeScene | None = None) -> Recurrence:
    """The finding with the cause of most of it; as it is where that is not known, or not in the node.

    Parameters
    ----------
    lost
        What its calls, or some of them, lost.
    nodes
        Where its ranks may run.
    """
    kinds: Counter[Kind] = Counter()
    for (kind, _), us in lost.items():
        kinds[kind] += us
    kind, us = max(kinds.items(), key=lambda one: (one[1], one[0]), default=(Kind.NOT_EXPLAINED, 0))
    if kind not in OF_NODE or us < MOST * kinds.total():
        return found
    names = (name for (of, name), part_us in lost.items() if of is kind and part_us >= MOST * us)
    by = next(filter(None, names), "")
    ranks, cores = 0, 0
    if kind is Kind.WAITED_FOR_CORE and not by and nodes is not None:
        ranks, cores = nodes.sharing(found.program, found.ranks)
    return msgspec.structs.replace(found, cause=kind.value, by=by, ranks_there=ranks, cores=cores)
