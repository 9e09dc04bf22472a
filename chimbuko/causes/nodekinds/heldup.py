"""A call took longer because its thread did not run: it was stopped, or its core was another's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.flag import sampled_part
from chimbuko.causes.evidence.nodescene import Rival
from chimbuko.causes.evidence.part import ANALYSIS, LIMIT, Kind, Part
from chimbuko.causes.evidence.scene import POLLING_SHARE, Scene
from chimbuko.causes.evidence.threadtime import Seen
from chimbuko.causes.nodekinds.division import LEAST_SHARE, divided

CULPRIT_SHARE = 0.4
"""Of the wait, that a rival must have run for to be named."""
THROTTLED_SHARE = 0.5
"""Of the wait, that its control group must have been kept from its cores."""
LOOK_US = 20_000
"""From one look at a rank's thread to the next, where that costs little."""


def stopped(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long it stood still in state T, whatever it was in."""
    if flag.loss is not None:
        if flag.loss is Kind.STOPPED:
            yield Part(Kind.STOPPED, flag.excess_us)
        return
    seen = scene.seen(flag)
    if seen is not None and seen.stopped_us >= LEAST_SHARE * flag.excess_us:
        yield Part(Kind.STOPPED, seen.stopped_us)


def without_core(flag: Flag, scene: Scene) -> Iterator[Part]:
    """For how long it waited for a core that another had."""
    if flag.loss is not None:
        if flag.loss is Kind.WAITED_FOR_CORE:
            yield _loss(flag, scene)
        return
    seen = scene.seen(flag)
    if seen is None:
        return
    lost_us = divided(seen, scene.nodes.group(flag), flag.excess_us)
    waited_us = lost_us.get(Kind.WAITED_FOR_CORE, 0.0)
    if _is_part_of_loss(flag, scene):
        waited_us = flag.excess_us
    if waited_us >= (POLLING_SHARE if flag.is_wait else LEAST_SHARE) * flag.excess_us:
        yield _waited(waited_us, flag, scene, seen)


def _is_part_of_loss(flag: Flag, scene: Scene) -> bool:
    """Whether it lost its time at once, while its rank lost its core again and again: shorter than a look, it
    shares the whole one's figures else, though it may be where the wait was.
    """
    if flag.is_wait or flag.excess_us > LOOK_US:
        return False
    losses = (one for one in scene.beside(flag) if one.loss is Kind.WAITED_FOR_CORE)
    is_in_one = any(flag.overlap_us(one) >= flag.lost_to_us - flag.lost_from_us for one in losses)
    return is_in_one and scene.nodes.waited_near_us(flag) >= flag.excess_us


def _loss(flag: Flag, scene: Scene) -> Part:
    """What a rank lost in no one call; who took its core then did so at the beginning, too."""
    looked_at = sampled_part(flag)
    seen = scene.nodes.seen(looked_at)
    if seen is None:
        return Part(Kind.WAITED_FOR_CORE, flag.excess_us)
    part = _waited(looked_at.excess_us, looked_at, scene, seen)
    if part.by and not part.is_foreign:
        # Who takes the core of one rank makes ranks share the others.
        others = scene.nodes.rivals(looked_at, seen.cores | scene.nodes.allowed(looked_at))
        foreign = [one for one in others if one.is_foreign]
        if foreign and sum(one.ran_us for one in foreign) >= looked_at.excess_us:
            part = replace(part, by=foreign[0].name, is_foreign=True, core=foreign[0].core)
    return replace(part, lost_us=flag.excess_us)


def _waited(waited_us: float, flag: Flag, scene: Scene, seen: Seen) -> Part:
    if scene.nodes.group(flag).throttled_us >= THROTTLED_SHARE * waited_us:
        return Part(Kind.WAITED_FOR_CORE, waited_us, by=LIMIT)
    rivals = scene.nodes.rivals(flag, seen.cores)
    rival = culprit(waited_us + seen.usual_wait_us, rivals)
    if rival is None:
        return Part(Kind.WAITED_FOR_CORE, waited_us)
    return Part(Kind.WAITED_FOR_CORE, waited_us, by=rival.name, is_foreign=rival.is_foreign, core=rival.core)


def culprit(waited_us: float, rivals: tuple[Rival, ...]) -> Rival | None:
    """Who ran most on its cores, or several who are not of the program; None where they ran for too short."""
    enough = [one for one in rivals if one.ran_us >= CULPRIT_SHARE * waited_us]
    if enough:
        # We are there all the time; who comes is why it is worse.
        return next((one for one in enough if one.is_foreign and one.name != ANALYSIS), enough[0])
    foreign = [one for one in rivals if one.is_foreign]
    ran_us = sum(one.ran_us for one in foreign)
    if not foreign or ran_us < CULPRIT_SHARE * waited_us:
        return None
    others = " and others" if len({one.name for one in foreign}) > 1 else ""
    return dataclasses.replace(foreign[0], name=foreign[0].name + others, ran_us=ran_us)
