"""Causes by which a thread did not run: its process was stopped, or another one had its core."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from chimbuko.causes.evidence.evidence import LOOK_US, POLLING_SHARE, Evidence
from chimbuko.causes.evidence.flag import Flag, sampled_part
from chimbuko.causes.evidence.nodeevidence import Rival
from chimbuko.causes.evidence.threadactivity import ThreadActivity
from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.kinds.cause import Cause, Told
from chimbuko.causes.kinds.spent import LEAST_SHARE, divided
from chimbuko.causes.part import ANALYSIS, LIMIT, HeldUp, Part
from chimbuko.causes.wording import duration, ranks_in_words, spread
from chimbuko.core.units import number_of

CULPRIT_SHARE = 0.4
"""Share of the wait that a rival must have run for to be named."""
THROTTLED_SHARE = 0.5
"""Share of the wait for which the control group must have been kept from its cores, to be named."""
MOST_OF_STOP = 0.5
"""Share of a stop: a call that holds so much of it holds all of it."""
AND_OTHERS = " and others"
"""End of a name that stands for several processes, none of which took a core for most of the time."""
LONGER = 1.25
"""Factor by which a period must be longer than what was lost in it for a sentence to give both."""


def stopped(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield how long the process was in state T, whatever the call is."""
    if flag.loss is not None:
        if flag.loss is HeldUp.STOPPED:
            yield Part(STOPPED.id, flag.excess_us)
        return
    activity = evidence.activity(flag)
    if activity is not None and activity.stopped_us >= LEAST_SHARE * flag.excess_us:
        yield Part(STOPPED.id, activity.stopped_us)


def waited_for_core(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield how long the thread waited for a core that another one had."""
    if flag.loss is not None:
        if flag.loss is HeldUp.WAITED_FOR_CORE:
            yield _loss(flag, evidence)
        return
    activity = evidence.activity(flag)
    if activity is None:
        return
    lost_us = divided(activity, evidence.nodes.group(flag), flag.excess_us)
    waited_us = lost_us.get(WAITED_FOR_CORE.id, 0.0)
    if _is_part_of_loss(flag, evidence):
        waited_us = flag.excess_us
    if waited_us >= (POLLING_SHARE if flag.is_wait else LEAST_SHARE) * flag.excess_us:
        yield _waited(waited_us, flag, evidence, activity)


def _is_part_of_loss(flag: Flag, evidence: Evidence) -> bool:
    """Whether a call lost its time at once while its rank lost its core again and again. Shorter than a look,
    it would share the figures of the whole look, though the wait may have been in it alone.
    """
    if flag.is_wait or flag.excess_us > LOOK_US:
        return False
    losses = (one for one in evidence.beside(flag) if one.loss is HeldUp.WAITED_FOR_CORE)
    is_in_one = any(flag.overlap_us(one) >= flag.lost_to_us - flag.lost_from_us for one in losses)
    return is_in_one and evidence.nodes.waited_near_us(flag) >= flag.excess_us


def _loss(flag: Flag, evidence: Evidence) -> Part:
    """Return what a rank lost in no one call; who took its core at the beginning took it all along."""
    looked_at = sampled_part(flag)
    activity = evidence.nodes.activity(looked_at)
    if activity is None:
        return Part(WAITED_FOR_CORE.id, flag.excess_us)
    part = _waited(looked_at.excess_us, looked_at, evidence, activity)
    if part.by and not part.is_foreign:
        # Who takes the core of one rank makes ranks share the others.
        others = evidence.nodes.rivals(looked_at, activity.cores | evidence.nodes.allowed(looked_at))
        foreign = [one for one in others if one.is_foreign]
        if foreign and sum(one.ran_us for one in foreign) >= looked_at.excess_us:
            part = replace(part, by=foreign[0].name, is_foreign=True, core=foreign[0].core)
    return replace(part, lost_us=flag.excess_us)


def _waited(waited_us: float, flag: Flag, evidence: Evidence, activity: ThreadActivity) -> Part:
    if evidence.nodes.group(flag).throttled_us >= THROTTLED_SHARE * waited_us:
        return Part(WAITED_FOR_CORE.id, waited_us, by=LIMIT)
    rivals = evidence.nodes.rivals(flag, activity.cores)
    rival = culprit(waited_us + activity.usual_wait_us, rivals)
    if rival is None:
        return Part(WAITED_FOR_CORE.id, waited_us)
    return Part(WAITED_FOR_CORE.id, waited_us, by=rival.name, is_foreign=rival.is_foreign, core=rival.core)


def culprit(waited_us: float, rivals: tuple[Rival, ...]) -> Rival | None:
    """Return the rival that ran most, or several that are none of the program's as one; None if they ran for
    too short a time.
    """
    enough = [one for one in rivals if one.ran_us >= CULPRIT_SHARE * waited_us]
    if enough:
        # The analysis is there all the time; who comes is why it is worse.
        return next((one for one in enough if one.is_foreign and one.name != ANALYSIS), enough[0])
    foreign = [one for one in rivals if one.is_foreign]
    ran_us = sum(one.ran_us for one in foreign)
    if not foreign or ran_us < CULPRIT_SHARE * waited_us:
        return None
    others = AND_OTHERS if len({one.name for one in foreign}) > 1 else ""
    return replace(foreign[0], name=foreign[0].name + others, ran_us=ran_us)


def _clause_of_stop(part: Part, rank: int | None) -> str:
    return f"as rank {rank} stood still for {duration(part.lost_us)} (stopped)"


def _clause_of_core(part: Part, rank: int | None) -> str:
    lost = duration(part.lost_us)
    if part.by == LIMIT:
        return f"as {part.by} kept it from running for {lost}"
    if part.by:
        return f"as {part.by} took core{'' if part.core is None else f' {part.core}'} for {lost}"
    return f"as it waited {lost} for its core, which somebody else had"


def _all_stopped(incident: Incident, main: Part) -> Told | None:
    """Tell of all ranks that were stopped at the same time, or of a stop that lies in no one call."""
    hit = _alike(incident, main)
    if not incident.is_loss:
        hit = [one for one in hit if one.rank != incident.rank]
    stood_us = _stood_us(incident, main, hit)
    if len(stood_us) > 1:
        who = ranks_in_words(stood_us)
        if incident.is_of_all:
            who = "both ranks" if len(stood_us) == 2 else f"all {number_of(len(stood_us), 'ranks')}"
        return Told(f"{who} stood still for {spread(stood_us)} (stopped), at the same time", hit)
    if incident.is_loss:
        ranks, lost = _lost(incident, hit)
        return Told(f"{ranks_in_words(ranks)} stood still for {lost} (stopped)", hit)
    return None


def _all_without_core(incident: Incident, main: Part) -> Told | None:
    """Tell of all that was lost to one taker of cores, or of waits for cores that lie in no one call."""
    hit = _alike(incident, main)
    if incident.is_loss:
        return Told(_loss_of_core(incident, main, hit), hit)
    if main.is_foreign and (hit or incident.losses):
        return Told(_taking(incident, main, hit), hit)
    return None


def _alike(incident: Incident, main: Part) -> list[Waited]:
    """Return other calls of an incident with the cause of its origin, which waited for no other call."""
    return [one for one in incident.waited if one.kind == main.kind and not one.for_call_id]


def _stood_us(incident: Incident, main: Part, hit: Sequence[Waited]) -> dict[int, float]:
    """Return how long each rank was stopped."""
    lost: dict[int, float] = defaultdict(float)
    if incident.call_id and incident.rank is not None:
        lost[incident.rank] = main.lost_us
    for one in hit:
        lost[one.rank] += one.lost_us
    for loss in incident.losses:
        # By looks a stop lasts a little longer than by the call that it was in.
        if lost[loss.rank] < MOST_OF_STOP * loss.lost_us:
            lost[loss.rank] = loss.lost_us
    return lost


def _lost(incident: Incident, hit: Sequence[Waited]) -> tuple[set[int], str]:
    """Return the ranks that lost time in no one call, and how much."""
    losses = incident.losses
    beyond_us = sum(one.beyond_us for one in losses) + sum(one.lost_us for one in hit)
    # Some of it may be in waits of the same ranks for each other, which count by themselves.
    lost_us = max(beyond_us, sum(one.lost_us for one in losses))
    ranks = {one.rank for one in losses} | {one.rank for one in hit}
    span_us = max(one.end_us for one in losses) - min(one.begin_us for one in losses)
    is_spread = len(ranks) == 1 and span_us > LONGER * lost_us
    return ranks, duration(lost_us) + (f" of {duration(span_us)}" if is_spread else "")


def _loss_of_core(incident: Incident, main: Part, hit: Sequence[Waited]) -> str:
    ranks, lost = _lost(incident, hit)
    who = ranks_in_words(ranks)
    if not main.by:
        its = "its core" if len(ranks) == 1 else "their cores"
        return f"{who} waited {lost} for {its}, which somebody else had"
    if len(ranks) > 1 and main.by in {f"rank {rank}" for rank in ranks}:
        return f"{who} waited {lost} for their cores, which they took from each other"
    calls = number_of(len(hit), "abnormal calls")
    if main.by == LIMIT:
        return f"{main.by} kept {who} from running for {lost}{f', with {calls}' if hit else ''}"
    if hit and {one.rank for one in hit} != ranks:
        return f"{main.by} took {_core(main)} for {lost}, which {who} waited for, with {calls}"
    calls = f"{calls} on " if hit else ""
    return f"{main.by} took {_core(main)} for {lost}, which {calls}{who} waited for"


def _taking(incident: Incident, main: Part, hit: Sequence[Waited]) -> str:
    beyond_us = sum(one.beyond_us for one in incident.losses)
    lost = duration(main.lost_us + sum(one.lost_us for one in hit) + beyond_us)
    ranks = {one.rank for one in hit} | {one.rank for one in incident.losses}
    ranks |= {incident.rank} if incident.rank is not None else set()
    calls = number_of(len(hit) + 1, "calls")
    return f"{main.by} took {_core(main)} for {lost}, which {calls} on {ranks_in_words(ranks)} waited for"


def _core(part: Part) -> str:
    return "a core" if part.core is None else f"core {part.core}"


STOPPED = Cause(
    id=HeldUp.STOPPED.value,
    colour="node",
    text="while its process was stopped",
    is_in_node=True,
    find=stopped,
    clause=_clause_of_stop,
    tell=_all_stopped,
    recurring="{was} stopped",
)
WAITED_FOR_CORE = Cause(
    id=HeldUp.WAITED_FOR_CORE.value,
    colour="node",
    text="kept from running by {by|a process that is not known}",
    is_in_node=True,
    find=waited_for_core,
    clause=_clause_of_core,
    tell=_all_without_core,
    recurring="waited for {its} {cores}",
)
