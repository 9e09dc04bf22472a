"""For whom a call waited: what the causes that are waits have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.part import Kind, Part
from chimbuko.causes.evidence.scene import Scene


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
    elif len(partners) == 1:
        yield Part(kind, flag.excess_us, rank=next(iter(partners)))
