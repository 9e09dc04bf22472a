"""Sentence that tells of an incident, or of what recurs; the same wherever it is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.kinds.children import IN_CHILD
from chimbuko.causes.kinds.peers import LATE_THREAD, named_thread
from chimbuko.causes.kinds.registry import cause_of
from chimbuko.causes.kinds.split import main_part
from chimbuko.causes.part import LIMIT
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.causes.wording import (
    ALIKE,
    Bound,
    duration,
    lost_time,
    ranks_in_words,
    spread,
    threads_in_words,
)
from chimbuko.core.calls.functionnames import place_of_construct, short_name
from chimbuko.core.calls.waiting import Waits, is_start, waits_in
from chimbuko.core.units import against_usual, number_of

MOST_OPERATIONS = 2
"""Maximum number of operations whose waits have a clause each; the others are counted."""
MOST_FUNCTIONS = 3
"""Maximum number of functions that are named; the others are counted."""


def sentence(incident: Incident) -> str:
    """Return what happened, whom it held up, and what it cost."""
    main = main_part(incident.parts)
    told = cause_of(main.kind).tell(incident, main)
    clauses = [told.clause] if told is not None else [_origin(incident)] if incident.call_id else []
    waited = [] if told is None else told.waited
    others = [one for one in incident.waited if one not in waited]
    of_threads = [one for one in others if one.rank == incident.rank and _is_of_threads(one)]
    of_threads = of_threads or [one for one in others if _is_of_threads(one)]
    if of_threads:
        clauses = [_late(incident, of_threads), *clauses, _waited_there(of_threads)]
    clauses += _waits(incident, [one for one in others if one not in of_threads])
    lost = lost_time(incident.cost_us, incident.ranks, incident.bound)
    return f"{'; '.join(clauses)}: {lost}{_basis(incident)}."


def _basis(incident: Incident) -> str:
    """Return what the cost was estimated from; empty where it was not."""
    if incident.bound is not Bound.ESTIMATED:
        return ""
    asked = len(incident.asked.near) + len(incident.asked.spread)
    return f", estimated from {asked} of {number_of(incident.of_ranks, 'ranks')}"


def recurrence_sentence(recurrence: Recurrence) -> str:
    """Return what happens again and again, and what it costs."""
    tells = {
        RecurrenceKind.INTERRUPTIONS: _interruptions,
        RecurrenceKind.SLOW_MODE: _slow_mode,
        RecurrenceKind.DRIFT: _drift,
        RecurrenceKind.SLOW_RANKS: _slow_ranks,
        RecurrenceKind.SLOW_THREADS: _slow_threads,
        RecurrenceKind.DEADLOCK: _deadlock,
        RecurrenceKind.LATE_THREADS: _late_threads,
    }
    lost = f": {lost_time(recurrence.cost_us)} in all" if recurrence.cost_us else ""
    return f"{tells[recurrence.kind](recurrence)}{lost}."


def _interruptions(recurrence: Recurrence) -> str:
    calls = f"{number_of(recurrence.calls, 'short delays')} of up to {duration(recurrence.longest_us)}"
    where = f"{ranks_in_words(recurrence.ranks)}{_because(recurrence)}"
    return f"{calls} in {_functions(recurrence)} on {where}"


def _slow_mode(recurrence: Recurrence) -> str:
    total = round(recurrence.calls / recurrence.share)
    # Their cost is their number times what they take more on average; a few of them may hold most of it.
    mean_us = recurrence.usual_us + recurrence.cost_us / recurrence.calls
    mean, usual = f"{duration(mean_us)} on average", duration(recurrence.usual_us)
    if mean_us > ALIKE * recurrence.typical_us:
        mean += f" (half of them {duration(recurrence.typical_us)} or less)"
    text = (
        f"{short_name(recurrence.function)}: {recurrence.calls:,} of {number_of(total, 'calls')} "
        f"({100 * recurrence.share:.2g} %) take {mean} instead of {usual}"
    )
    if recurrence.callers:
        text += f", called by {', '.join(map(short_name, recurrence.callers[:MOST_FUNCTIONS]))}"
    if recurrence.every_us:
        text += f", every {duration(recurrence.every_us)}"
    if recurrence.ranks:
        text += f", seen on {ranks_in_words(recurrence.ranks)}{_because(recurrence)}"
    return text


def _drift(recurrence: Recurrence) -> str:
    typical, usual = duration(recurrence.typical_us), duration(recurrence.usual_us)
    total = round(recurrence.calls / (recurrence.share or 1.0))
    since = f"since call {total - recurrence.calls + 1:,} of {total:,}"
    calls = since if total > recurrence.calls else f"{number_of(total, 'calls')} in all"
    where = f", on {ranks_in_words(recurrence.ranks)}" if recurrence.ranks else ""
    return (
        f"{short_name(recurrence.function)} became slower: a call takes {typical} instead of {usual} "
        f"at first ({recurrence.factor:.2f}×), {calls}{where}"
    )


def _slow_ranks(recurrence: Recurrence) -> str:
    several = len(recurrence.ranks) > 1
    where = f" on node {recurrence.node}" if recurrence.node else ""
    functions = _functions(recurrence) or "all that they compute"
    ranks = ranks_in_words(recurrence.ranks)
    if is_start(recurrence.function):
        late = f"{ranks[:1].upper()}{ranks[1:]} came to {functions} {duration(recurrence.typical_us)} late"
        spent = f", the time spent in {short_name(recurrence.by)} before" if recurrence.by else ""
        return f"{late}{spent}; {number_of(recurrence.calls, 'ranks')} waited there"
    if recurrence.usual_us and len(recurrence.functions) == 1:
        return (
            f"Imbalance: {functions} takes {duration(recurrence.typical_us)} on {ranks}, "
            f"{recurrence.factor:.2f} times the {duration(recurrence.usual_us)} on the other ranks"
        )
    return (
        f"{ranks[:1].upper()}{ranks[1:]}{where} {'take' if several else 'takes'} "
        f"{recurrence.factor:.2f} times as long as other ranks all the time, in {functions}"
    )


def _slow_threads(recurrence: Recurrence) -> str:
    where = f"{threads_in_words(recurrence.threads)} of {ranks_in_words(recurrence.ranks)}"
    if len(recurrence.functions) == 1:
        return (
            f"Imbalance: {_functions(recurrence)} takes {duration(recurrence.typical_us)} on {where}, "
            f"{recurrence.factor:.2f} times the {duration(recurrence.usual_us)} on the other threads"
        )
    takes = "take" if len(recurrence.threads) > 1 else "takes"
    return (
        f"{where[:1].upper()}{where[1:]} {takes} {recurrence.factor:.2f} times as long as the other threads "
        f"all the time, in {_functions(recurrence)}"
    )


def _deadlock(recurrence: Recurrence) -> str:
    lasted = f", for {duration(recurrence.longest_us)}" if recurrence.longest_us else ""
    where = f" in {_functions(recurrence)}" if recurrence.functions else ""
    return f"Deadlock{where}: {recurrence.by}{lasted}"


def _late_threads(recurrence: Recurrence) -> str:
    where = place_of_construct(recurrence.function)
    return (
        f"Imbalance of threads: {recurrence.by} of {ranks_in_words(recurrence.ranks)} takes "
        f"{recurrence.factor:.2f} times as long as the others before the barrier of {where}, in "
        f"{100 * recurrence.share:.2g} % of {number_of(recurrence.calls, 'times')}"
    )


def _functions(recurrence: Recurrence) -> str:
    """Return the functions that are hit; empty if they are not known."""
    named = ", ".join(map(short_name, recurrence.functions[:MOST_FUNCTIONS]))
    more = len(recurrence.functions) - MOST_FUNCTIONS
    return f"{named} and {number_of(more, 'more functions')}" if more > 0 else named


def _because(recurrence: Recurrence) -> str:
    """Return the cause in the node by which the ranks lost the time; empty if it is not known."""
    if not recurrence.cause:
        return ""
    is_one = len(recurrence.ranks) == 1
    who, its = ("it", "its") if is_one else ("they", "their")
    was, cores = ("was", "core") if is_one else ("were", "cores")
    if recurrence.by == LIMIT:
        return f", as {LIMIT} kept {'it' if is_one else 'them'} from running"
    if recurrence.by:
        return f", as {recurrence.by} took {its} {cores}"
    words = cause_of(recurrence.cause).recurring.format(was=was, its=its, cores=cores)
    if recurrence.ranks_there:
        words += f" ({recurrence.ranks_there} ranks share {number_of(recurrence.cores, 'cores')})"
    return f", as {who} {words}"


def _origin(incident: Incident) -> str:
    runtime = duration(incident.runtime_us)
    on = f"{named_thread(incident.thread)} of " if incident.thread else ""
    what = f"{short_name(incident.function)} on {on}rank {incident.rank}"
    what += f" took {runtime}" if incident.is_whole else f" spent {runtime} in its own code"
    what += _between(incident)
    usual = duration(incident.expected_us)
    what += against_usual(incident.runtime_us, incident.expected_us, usual)
    main = main_part(incident.parts)
    clause = cause_of(main.kind).clause(main, incident.rank)
    return f"{what}, {clause}" if clause else what


def _between(incident: Incident) -> str:
    if not incident.between:
        return ""
    *known, after = map(short_name, incident.between)
    if not known:
        return f" before it called {after}"
    (before,) = known
    return f" between {before} and {after}" if before != after else f" between two calls of {before}"


def _is_of_threads(one: Waited) -> bool:
    return waits_in(one.operation) is Waits.THREADS


def _late(incident: Incident, waited: Sequence[Waited]) -> str:
    """Return which thread came late to which barrier, and by how much."""
    most = max(waited, key=lambda one: one.lost_us)
    late = named_thread(incident.thread) if incident.call_id else ""
    if not late and incident.kind == LATE_THREAD.id:
        late = main_part(incident.parts).by
    where = f"the barrier of {place_of_construct(most.operation)}"
    late_us = duration(most.lost_us)
    of_rank = f"{late or 'a thread'} of rank {most.rank}"
    return f"{of_rank} came {late_us} late to {where}"


def _waited_there(waited: Sequence[Waited]) -> str:
    lost: dict[int, float] = defaultdict(float)
    for one in waited:
        lost[one.thread] += one.lost_us
    return f"{number_of(len(lost), 'threads')} waited {spread(lost)}"


def _waits(incident: Incident, all_waited: Sequence[Waited]) -> list[str]:
    by_operation: dict[str, list[Waited]] = defaultdict(list)
    for one in all_waited:
        if one.kind == IN_CHILD.id:
            # It contains what is named already.
            continue
        by_operation[short_name(one.operation)].append(one)
    costly = sorted(by_operation.items(), key=lambda item: -sum(one.lost_us for one in item[1]))
    clauses = [_wait(incident, operation, waited) for operation, waited in costly[:MOST_OPERATIONS]]
    if len(costly) > MOST_OPERATIONS:
        others = [one for _, waited in costly[MOST_OPERATIONS:] for one in waited]
        lost = duration(sum(one.lost_us for one in others))
        clauses.append(f"{number_of(len(others), 'other calls')} lost {lost}")
    return clauses


def _wait(incident: Incident, operation: str, waited: Sequence[Waited]) -> str:
    lost: dict[int, float] = defaultdict(float)
    for one in waited:
        lost[one.rank] += one.lost_us
    asked = {*incident.asked.near, *incident.asked.spread}
    is_least = incident.bound is not Bound.EXACT and any(one.rank in asked for one in waited)
    least = "at least " if is_least else ""
    return f"{least}{ranks_in_words(lost)} waited {spread(lost)}{_for_whom(incident)} in {operation}"


def _for_whom(incident: Incident) -> str:
    if incident.call_id or incident.is_loss:
        return " for it"
    if incident.rank is not None:
        return f" for rank {incident.rank}, of which nothing is on record,"
    return ""
