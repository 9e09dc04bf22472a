"""For whom a call waited: what the causes that are waits have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene

LATE_SHARE = 0.25
"""Of a wait's excess: whoever came less late was in time."""


def last_of(came_us: Mapping[int, int], flag: Flag) -> tuple[int, int] | None:
    """Of ranks and the times when they came, on the common clock, the last one; None where none came late."""
    late_us = flag.common_entry_us + LATE_SHARE * flag.excess_us
    late = {rank: time_us for rank, time_us in came_us.items() if rank != flag.rank and time_us > late_us}
    return max(late.items(), key=lambda one: (one[1], one[0])) if late else None


def waited_for_known(kind: Kind, flag: Flag, scene: Scene, rank: int, came_us: int) -> Iterator[Part]:
    """The part of a wait for a rank that is known to have come at a time, on the common clock."""
    culprit = scene.culprit(flag, {rank}, came_us)
    late_us = min(flag.excess_us, came_us - flag.common_entry_us)
    if culprit is not None:
        lost_us = min(late_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(kind, lost_us, culprit.function, rank, culprit.id)
        return
    # A rank that was held up itself by less than is recorded passes on what held it up.
    culprit = scene.culprit(flag)
    if culprit is not None:
        lost_us = min(late_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(kind, lost_us, culprit.function, culprit.rank, culprit.id, False)
    else:
        yield Part(kind, late_us, rank=rank)


def waited_for(kind: Kind, flag: Flag, scene: Scene, partners: Collection[int]) -> Iterator[Part]:
    """The part of a wait that another rank explains.

    Parameters
    ----------
    partners
        Whom the call exchanged messages with; empty where none are on record, or it may be any rank.
    """
    culprit = scene.culprit(flag, partners) if partners else None
    is_matched = culprit is not None
    if culprit is None:
        # A partner that was held up itself by less than is recorded passes on what held it up.
        culprit = scene.culprit(flag)
    if culprit is not None:
        lost_us = min(flag.excess_us, culprit.excess_us, flag.overlap_us(culprit))
        yield Part(kind, lost_us, culprit.function, culprit.rank, culprit.id, is_matched)
    elif len(partners) == 1 and not scene.is_held_up(flag):
        yield Part(kind, flag.excess_us, rank=next(iter(partners)))
