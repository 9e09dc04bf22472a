"""An incident in one sentence, the same wherever it is shown."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from chimbuko.causes.evidence.part import LIMIT, OF_NODE, Kind, Part
from chimbuko.causes.grouping import main_part
from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.recurrence import Habit, Recurrence
from chimbuko.core.calls.functionnames import short_name
from chimbuko.core.units import format_duration_us, format_times, number_of

MOST_OPERATIONS = 2
MOST_FUNCTIONS = 3
MOST_RANKS = 6
"""More are named as ranges, and counted."""
MOST_OF_STOP = 0.5
"""Of a stop: a call that holds so much of it holds all of it."""
_ZEROS = re.compile(r"\.0+(?= )")
LONGER = 1.25
"""Than what was lost: the time in which it was is said, too."""
ALIKE = 1.1
"""Figures that differ by less than this factor are one."""


def sentence(incident: Incident) -> str:
    """What happened, whom it held up, and what it cost."""
    cost = f"{_core_seconds(incident.cost_us)} lost."
    hit = _hit(incident)
    clauses = []
    stood_us = _stood_us(incident, hit)
    if len(stood_us) > 1:
        clauses.append(_stopped_together(incident, stood_us))
    elif incident.is_loss:
        clauses.append(_loss(incident, hit))
    elif _is_taken(incident) and (hit or incident.losses):
        clauses.append(_taking(incident, hit))
    elif incident.call_id:
        clauses.append(_origin(incident))
    clauses += _waits(incident, [one for one in incident.waited if one not in hit])
    return f"{'; '.join(clauses)}: {cost}"


def recurrence_sentence(recurrence: Recurrence) -> str:
    """What happens again and again, and what it costs."""
    cost = f"{_core_seconds(recurrence.cost_us)} lost in all."
    if recurrence.kind is Habit.SLOW_MODE:
        return f"{_slow_mode(recurrence)}: {cost}"
    if recurrence.kind is Habit.DRIFT:
        return f"{_drift(recurrence)}: {cost}"
    if recurrence.kind is Habit.SLOW_RANKS:
        return f"{_slow_ranks(recurrence)}: {cost}"
    calls = f"{number_of(recurrence.calls, 'short delays')} of up to {_duration(recurrence.longest_us)}"
    functions = ", ".join(map(short_name, recurrence.functions[:MOST_FUNCTIONS]))
    more = len(recurrence.functions) - MOST_FUNCTIONS
    others = f" and {number_of(more, 'more functions')}" if more > 0 else ""
    where = f"{ranks_in_words(recurrence.ranks)}{_because(recurrence)}"
    return f"{calls} in {functions}{others} on {where}: {cost}"


def _slow_mode(recurrence: Recurrence) -> str:
    total = round(recurrence.calls / recurrence.share)
    # Their cost is their number times what they take more on average; a few of them may hold most of it.
    mean_us = recurrence.usual_us + recurrence.cost_us / recurrence.calls
    mean, usual = f"{_duration(mean_us)} on average", _duration(recurrence.usual_us)
    if mean_us > ALIKE * recurrence.typical_us:
        mean += f" (half of them {_duration(recurrence.typical_us)} or less)"
    text = (
        f"{short_name(recurrence.function)}: {recurrence.calls:,} of {number_of(total, 'calls')} "
        f"({100 * recurrence.share:.2g} %) take {mean} instead of {usual}"
    )
    if recurrence.callers:
        text += f", called by {', '.join(map(short_name, recurrence.callers[:MOST_FUNCTIONS]))}"
    if recurrence.every_us:
        text += f", every {_duration(recurrence.every_us)}"
    if recurrence.ranks:
        text += f", seen on {ranks_in_words(recurrence.ranks)}{_because(recurrence)}"
    return text


def _because(recurrence: Recurrence) -> str:
    """What of their node the ranks lost the time by."""
    if not recurrence.cause:
        return ""
    is_one = len(recurrence.ranks) == 1
    who, its = ("it", "its") if is_one else ("they", "their")
    was, cores = ("was", "core") if is_one else ("were", "cores")
    if recurrence.by:
        return f", as {recurrence.by} took {its} {cores}"
    if recurrence.ranks_there:
        there = number_of(recurrence.cores, "cores")
        return f", as {who} waited for {its} {cores} ({recurrence.ranks_there} ranks share {there})"
    return (
        f", as {who} "
        + {
            Kind.STOPPED: f"{was} stopped",
            Kind.WAITED_FOR_CORE: f"waited for {its} {cores}",
            Kind.PAGE_FAULTS: "had page faults",
            Kind.MEMORY: f"{was} short of memory",
            Kind.MIGRATION: f"{was} moved from core to core",
            Kind.STORAGE: "waited for storage",
            Kind.NETWORK: "waited for a socket or a pipe",
            Kind.HELD_LOCK: "waited for a lock",
            Kind.SYSTEM_TIME: f"{was} in the kernel, for {its} system calls",
            Kind.GPU_BUSY: "had a GPU with more to do than usual",
            Kind.GPU_THROTTLED: "had a GPU that was slowed down",
        }[Kind(recurrence.cause)]
    )


def _drift(recurrence: Recurrence) -> str:
    typical, usual = _duration(recurrence.typical_us), _duration(recurrence.usual_us)
    return (
        f"{short_name(recurrence.function)} became slower: a call takes {typical} instead of {usual} "
        f"at first ({recurrence.factor:.2f}×), {number_of(recurrence.calls, 'calls')} in all"
    )


def _slow_ranks(recurrence: Recurrence) -> str:
    several = len(recurrence.ranks) > 1
    where = f" on node {recurrence.node}" if recurrence.node else ""
    functions = ", ".join(map(short_name, recurrence.functions[:MOST_FUNCTIONS])) or "all that they compute"
    more = len(recurrence.functions) - MOST_FUNCTIONS
    others = f" and {number_of(more, 'more functions')}" if more > 0 else ""
    ranks = ranks_in_words(recurrence.ranks)
    return (
        f"{ranks[:1].upper()}{ranks[1:]}{where} {'take' if several else 'takes'} "
        f"{recurrence.factor:.2f} times as long as other ranks all the time, in {functions}{others}"
    )


def ranks_in_words(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 1, 2 and 5``, ``512 ranks (0-255, 512-767)``."""
    listed = sorted(set(ranks))
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) <= MOST_RANKS:
        return f"ranks {', '.join(map(str, listed[:-1]))} and {listed[-1]}"
    ranges = _ranges(listed)
    shown = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges[:MOST_RANKS])
    more = ", ..." if len(ranges) > MOST_RANKS else ""
    return f"{number_of(len(listed), 'ranks')} ({shown}{more})"


def _origin(incident: Incident) -> str:
    runtime, usual = _duration(incident.runtime_us), _duration(incident.expected_us)
    what = f"{short_name(incident.function)} on rank {incident.rank} took {runtime}"
    if not incident.is_whole:
        what += " without the calls inside it"
    if incident.expected_us > 0.0:
        what += f", {format_times(incident.runtime_us / incident.expected_us)} its usual {usual}"
    main = main_part(incident.parts)
    if main.kind is Kind.LATE_CHILD:
        what += f", as it called {short_name(main.function)} {_duration(main.lost_us)} later"
    elif main.kind is Kind.MORE_CALLS:
        what += f", as it called {short_name(main.function)} more often"
    elif main.kind is Kind.MORE_BYTES:
        what += ", as it moved more data"
    elif main.kind is Kind.COUNTER:
        what += f", as {main.by} rose by {main.count}× as much as usual"
    elif main.kind is Kind.IN_CHILD:
        what += f", {_duration(main.lost_us)} of it in {short_name(main.function)}"
    elif main.kind is Kind.GPU_CALL and not main.function:
        what += f", as it waited {_duration(main.lost_us)} for what the GPU had to do"
    elif main.kind in OF_NODE:
        what += f", as {_of_node(main, incident)}"
    return what


def _of_node(part: Part, incident: Incident) -> str:
    """What the node did to a call."""
    lost, rank = _duration(part.lost_us), f"rank {incident.rank}"
    on_core = "" if part.core is None else f" {part.core}"
    match part.kind:
        case Kind.STOPPED:
            return f"{rank} stood still for {lost} (stopped)"
        case Kind.WAITED_FOR_CORE if part.by == LIMIT:
            return f"{part.by} kept it from running for {lost}"
        case Kind.WAITED_FOR_CORE if part.by:
            return f"{part.by} took core{on_core} for {lost}"
        case Kind.WAITED_FOR_CORE:
            return f"it waited {lost} for its core, which somebody else had"
        case Kind.PAGE_FAULTS:
            return f"{number_of(part.count, 'page faults')} took {lost}"
        case Kind.MEMORY:
            read = f", with {number_of(part.count, 'pages')} read back" if part.count else ""
            return f"memory was short for {lost}{read}"
        case Kind.MIGRATION:
            return f"it was moved from core to core all the time, which took {lost}"
        case Kind.STORAGE:
            return f"it waited {lost} for storage"
        case Kind.NETWORK:
            return f"it waited {lost} for a socket or a pipe"
        case Kind.HELD_LOCK:
            whose = f"while its thread {part.by} ran" if part.by else "which somebody else held"
            return f"it waited {lost} for a lock, {whose}"
        case Kind.GPU_THROTTLED:
            return f"{part.by} was slowed down for {lost}, for heat or by its power supply"
        case Kind.GPU_BUSY:
            others = f", with {number_of(part.count, 'programs')} of others on it" if part.count else ""
            return f"{part.by} had more to do than usual for {lost}{others}"
        case _:
            return f"the kernel took {lost} for its system calls"


def _is_taken(incident: Incident) -> bool:
    """Whether somebody who is not of the program took a core."""
    main = main_part(incident.parts)
    return main.kind is Kind.WAITED_FOR_CORE and main.is_foreign


def _hit(incident: Incident) -> list[Waited]:
    """Other calls of an incident that lost a core to the same process, were stopped at the same time on other
    ranks, or were part of the same loss; none where the origin lost none.
    """
    kind = main_part(incident.parts).kind
    same = [one for one in incident.waited if one.kind is kind and not one.for_call_id]
    if _is_taken(incident) or incident.is_loss:
        return same
    return [one for one in same if one.rank != incident.rank] if kind is Kind.STOPPED else []


def _stood_us(incident: Incident, hit: Sequence[Waited]) -> dict[int, float]:
    """For how long each rank stood still that was stopped; none where that is not what it was by."""
    main = main_part(incident.parts)
    if main.kind is not Kind.STOPPED:
        return {}
    lost: dict[int, float] = defaultdict(float)
    if incident.call_id and incident.rank is not None:
        lost[incident.rank] = main.lost_us
    for one in hit:
        lost[one.rank] += one.lost_us
    for loss in incident.losses:
        # By looks it lasts a little longer than by the call that it was in.
        if lost[loss.rank] < MOST_OF_STOP * loss.lost_us:
            lost[loss.rank] = loss.lost_us
    return lost


def _stopped_together(incident: Incident, stood_us: Mapping[int, float]) -> str:
    """Who was stopped at the same time."""
    who = ranks_in_words(stood_us)
    if incident.is_of_all:
        who = "both ranks" if len(stood_us) == 2 else f"all {number_of(len(stood_us), 'ranks')}"
    return f"{who} stood still for {_how_long(stood_us)} (stopped), at the same time"


def _loss(incident: Incident, hit: Sequence[Waited]) -> str:
    """What ranks lost by their node, in many calls."""
    losses, main = incident.losses, main_part(incident.parts)
    beyond_us = sum(one.beyond_us for one in losses) + sum(one.lost_us for one in hit)
    # Some of it may be in waits of the same ranks for each other, which count by themselves.
    lost_us = max(beyond_us, sum(one.lost_us for one in losses))
    ranks = {one.rank for one in losses} | {one.rank for one in hit}
    lost, who = _duration(lost_us), ranks_in_words(ranks)
    span_us = max(one.end_us for one in losses) - min(one.begin_us for one in losses)
    if len(ranks) == 1 and span_us > LONGER * lost_us:
        lost += f" of {_duration(span_us)}"
    if main.kind is Kind.STOPPED:
        return f"{who} stood still for {lost} (stopped)"
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


def _taking(incident: Incident, hit: Sequence[Waited]) -> str:
    """Who took a core from several calls."""
    main = main_part(incident.parts)
    beyond_us = sum(one.beyond_us for one in incident.losses)
    lost = _duration(main.lost_us + sum(one.lost_us for one in hit) + beyond_us)
    ranks = {one.rank for one in hit} | {one.rank for one in incident.losses}
    ranks |= {incident.rank} if incident.rank is not None else set()
    calls = number_of(len(hit) + 1, "calls")
    return f"{main.by} took {_core(main)} for {lost}, which {calls} on {ranks_in_words(ranks)} waited for"


def _core(part: Part) -> str:
    return "a core" if part.core is None else f"core {part.core}"


def _waits(incident: Incident, all_waited: Sequence[Waited]) -> list[str]:
    by_operation: dict[str, list[Waited]] = defaultdict(list)
    for one in all_waited:
        if one.kind is Kind.IN_CHILD:
            # It contains what is named already.
            continue
        by_operation[short_name(one.operation)].append(one)
    costly = sorted(by_operation.items(), key=lambda item: -sum(one.lost_us for one in item[1]))
    clauses = [_wait(incident, operation, waited) for operation, waited in costly[:MOST_OPERATIONS]]
    if len(costly) > MOST_OPERATIONS:
        others = [one for _, waited in costly[MOST_OPERATIONS:] for one in waited]
        lost = _duration(sum(one.lost_us for one in others))
        clauses.append(f"{number_of(len(others), 'other calls')} lost {lost}")
    return clauses


def _wait(incident: Incident, operation: str, waited: Sequence[Waited]) -> str:
    lost: dict[int, float] = defaultdict(float)
    for one in waited:
        lost[one.rank] += one.lost_us
    return f"{ranks_in_words(lost)} waited {_how_long(lost)}{_for_whom(incident)} in {operation}"


def _how_long(lost_us: Mapping[int, float]) -> str:
    """What ranks lost: about the same each, or from the one who lost least to the one who lost most."""
    shortest, longest = min(lost_us.values()), max(lost_us.values())
    if longest <= ALIKE * shortest:
        return _duration(sum(lost_us.values()) / len(lost_us)) + (" each" if len(lost_us) > 1 else "")
    return f"{_duration(shortest)} to {_duration(longest)}"


def _for_whom(incident: Incident) -> str:
    if incident.call_id or incident.is_loss:
        return " for it"
    if incident.rank is not None:
        return f" for rank {incident.rank}, of which nothing is on record,"
    return ""


def _duration(duration_us: float) -> str:
    """Whole numbers without zeros behind the point."""
    return _ZEROS.sub("", format_duration_us(duration_us))


def _core_seconds(cost_us: float) -> str:
    cost_s = cost_us / 1e6
    if cost_s < 1e-3:
        return f"{_duration(cost_us)} of core time"
    return f"{cost_s:,.0f} core-seconds" if cost_s >= 10 else f"{float(f'{cost_s:.2g}')} core-seconds"


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
