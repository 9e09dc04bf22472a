"""An incident in one sentence, the same wherever it is shown."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from chimbuko.causes.evidence.part import Kind
from chimbuko.causes.grouping import main_part
from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.recurrence import Habit, Recurrence
from chimbuko.units import format_duration_us, number_of

MOST_OPERATIONS = 2
MOST_FUNCTIONS = 3
MOST_RANKS = 6
"""More are named as ranges, and counted."""
_ZEROS = re.compile(r"\.0+(?= )")
ALIKE = 1.1
"""Waits that differ by less than this factor are one figure."""


def sentence(incident: Incident) -> str:
    """What happened, whom it held up, and what it cost."""
    cost = f"{_core_seconds(incident.cost_us)} lost."
    clauses = [_origin(incident)] if incident.call_id else []
    clauses += _waits(incident)
    return f"{'; '.join(clauses)}: {cost}"


def recurrence_sentence(recurrence: Recurrence) -> str:
    """What happens again and again, and what it costs."""
    cost = f"{_core_seconds(recurrence.cost_us)} lost in all."
    if recurrence.kind is Habit.SLOW_MODE:
        return f"{_slow_mode(recurrence)}: {cost}"
    calls = f"{number_of(recurrence.calls, 'short delays')} of up to {_duration(recurrence.longest_us)}"
    functions = ", ".join(map(short_name, recurrence.functions[:MOST_FUNCTIONS]))
    more = len(recurrence.functions) - MOST_FUNCTIONS
    others = f" and {number_of(more, 'more functions')}" if more > 0 else ""
    return f"{calls} in {functions}{others} on {ranks_in_words(recurrence.ranks)}: {cost}"


def _slow_mode(recurrence: Recurrence) -> str:
    total = round(recurrence.calls / recurrence.share)
    typical, usual = _duration(recurrence.typical_us), _duration(recurrence.usual_us)
    text = (
        f"{short_name(recurrence.function)}: {recurrence.calls:,} of {number_of(total, 'calls')} "
        f"({100 * recurrence.share:.2g} %) take {typical} instead of {usual}"
    )
    if recurrence.callers:
        text += f", called by {', '.join(map(short_name, recurrence.callers[:MOST_FUNCTIONS]))}"
    if recurrence.every_us:
        text += f", every {_duration(recurrence.every_us)}"
    return f"{text}, seen on {ranks_in_words(recurrence.ranks)}" if recurrence.ranks else text


def short_name(function: str) -> str:
    """A function without where it stands in the source."""
    return function.split(" [")[0].removesuffix("()")


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
        what += f", {_times(incident.runtime_us / incident.expected_us)} its usual {usual}"
    main = main_part(incident.parts)
    if main.kind is Kind.LATE_CHILD:
        what += f", as it called {short_name(main.function)} {_duration(main.lost_us)} later"
    elif main.kind is Kind.MORE_CALLS:
        what += f", as it called {short_name(main.function)} more often"
    elif main.kind is Kind.MORE_BYTES:
        what += ", as it moved more data"
    elif main.kind is Kind.IN_CHILD:
        what += f", {_duration(main.lost_us)} of it in {short_name(main.function)}"
    return what


def _waits(incident: Incident) -> list[str]:
    by_operation: dict[str, list[Waited]] = defaultdict(list)
    for one in incident.waited:
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
    shortest, longest = min(lost.values()), max(lost.values())
    if longest <= ALIKE * shortest:
        how_long = _duration(sum(lost.values()) / len(lost)) + (" each" if len(lost) > 1 else "")
    else:
        how_long = f"{_duration(shortest)} to {_duration(longest)}"
    return f"{ranks_in_words(lost)} waited {how_long}{_for_whom(incident)} in {operation}"


def _for_whom(incident: Incident) -> str:
    if incident.call_id:
        return " for it"
    if incident.rank is not None:
        return f" for rank {incident.rank}, of which nothing is on record,"
    return ""


def _duration(duration_us: float) -> str:
    """Whole numbers without zeros behind the point."""
    return _ZEROS.sub("", format_duration_us(duration_us))


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x"


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
