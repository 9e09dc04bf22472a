"""Sentences about what changed from one run to another, in single functions and as a whole. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from chimbuko.causes.wording import bounded
from chimbuko.core.calls.functionnames import short_name, shown_names
from chimbuko.core.units import (
    format_change,
    format_duration_us,
    format_share,
    format_signed,
    format_signed_us,
    number_of,
)
from chimbuko.provenance.compare.changes import Change
from chimbuko.provenance.compare.effects import assumed_where
from chimbuko.provenance.compare.runcomparison import NAMED, Comparison, Shift
from chimbuko.provenance.compare.runprofile import Findings
from chimbuko.provenance.compare.timechanges import TimeChange, WholeChange

# Sentences about a run as a whole: whether it is slower, and which functions make it so. Pure.


MOST_ROWS = 3
LEAST_TOLD = 1e-3
"""Least size of a part of the whole difference, against the largest part, for it to be told."""
LEAST_PART = 0.2
"""Least size of the smaller part of a change, against the larger one, for both to be told."""
ELSEWHERE = "time in no known call"
_WORSE = {"slower": "more", "faster": "less"}


def headline(whole: WholeChange, rows: Sequence[TimeChange]) -> str:
    """Return whether the run is slower or faster, and by what most of all."""
    before_us, after_us = _told_us(whole)
    before, after = format_duration_us(before_us), format_duration_us(after_us)
    subject = "The run took" if any(whole.wall_us) else "All calls took"
    change = format_change(whole.effect) if before_us else "nothing was recorded before"
    if whole.verdict == "same":
        return f"{subject} as long as before: {after} instead of {before} ({change})"
    if whole.verdict == "unclear":
        return f"{subject} {after} instead of {before} ({change}), by which runs of the same may differ"
    subject = "The run is" if any(whole.wall_us) else "All calls together are"
    first = leading_rows(whole, rows)[:1]
    cause = "".join(f"; most by {row_phrase(row, _name(row))}" for row in first)
    return f"{subject} {whole.verdict}: {after} instead of {before} ({change}){cause}"


def leading_rows(whole: WholeChange, rows: Sequence[TimeChange]) -> list[TimeChange]:
    """Return the rows that are sure and change in the same direction as the whole, the largest first.

    Rows of functions that wait come last, as these wait for others.
    """
    found = [row for row in rows if row.verdict == whole.verdict]
    return sorted(found, key=lambda row: (row.is_waiting, -abs(row.change_us)))


def row_sentences(whole: WholeChange, rows: Sequence[TimeChange], told: Collection[str]) -> list[str]:
    """Return a sentence for each row that is sure, after the one in the headline; few of them.

    ``told``: functions of whose longer or shorter calls another sentence speaks.
    """
    leading = leading_rows(whole, rows) if whole.verdict in _WORSE else []
    named = [
        row
        for row in rows
        if row.verdict in _WORSE
        and row not in leading[:1]
        and not (row.name in told and row.kind in ("longer calls", "shorter calls"))
    ]
    named.sort(key=lambda row: (row.verdict != whole.verdict, row.is_waiting, -abs(row.change_us)))
    shown = shown_names((row.name for row in named), short_name)
    lines = [row_phrase(row, shown.get(row.name, "")) for row in named[:MOST_ROWS]]
    lines = [line[:1].upper() + line[1:] if line.startswith(ELSEWHERE) else line for line in lines]
    if len(named) > MOST_ROWS:
        lines.append(f"{len(named) - MOST_ROWS} more take more time or less")
    return lines


def row_phrase(row: TimeChange, name: str) -> str:
    """Return by how much the time of a function has changed, and why."""
    change = format_signed_us(row.change_us)
    return f"{name or ELSEWHERE}: {change}{_why(row)}" if row.name else f"{ELSEWHERE}: {change}"


def sum_sentence(whole: WholeChange) -> str:
    """Return the parts of the difference, which add up to it."""
    before, after = (format_duration_us(us) for us in whole.time_us)
    parts = [
        (whole.by_number_us, "by more calls", "by fewer calls"),
        (whole.by_length_us, "by longer calls", "by shorter calls"),
        (whole.once_us, "in functions called once", "in functions called once"),
        (whole.waits_us, "in waits", "in waits"),
        (whole.new_us, "in new functions", ""),
        (whole.gone_us, "", "in functions that are gone"),
        (whole.elsewhere_us, f"of {ELSEWHERE}", f"of {ELSEWHERE}"),
    ]
    least_us = LEAST_TOLD * max(abs(us) for us, _, _ in parts)
    told = [(us, more if us > 0 else less) for us, more, less in parts if abs(us) > least_us]
    line = f"Time of all ranks: {before} before, {after} after: {format_signed_us(whole.change_us)}"
    if len(told) < 2:
        return " ".join([line, *(how for _, how in told)])
    return f"{line} = {', '.join(f'{format_signed_us(us)} {how}' for us, how in told)}"


def _told_us(whole: WholeChange) -> tuple[float, float]:
    return whole.wall_us if any(whole.wall_us) else whole.time_us


def _name(row: TimeChange) -> str:
    return short_name(row.name) if row.name else ""


def _why(row: TimeChange) -> str:
    before, after = (
        format_duration_us(us / max(1.0, calls)) for us, calls in zip(row.time_us, row.calls, strict=True)
    )
    if row.kind == "called once":
        return f" ({row.kind}, {after} instead of {before})"
    if row.kind in ("new", "gone"):
        return f" ({row.kind})"
    first, second = row.calls
    number = f"by {'more' if second > first else 'fewer'} calls ({second:,.0f} instead of {first:,.0f})"
    way = "longer" if row.by_length_us > 0 else "shorter"
    length = f"by {way} calls (on average {after} instead of {before})"
    parts = sorted([(row.by_number_us, number), (row.by_length_us, length)], key=lambda part: -abs(part[0]))
    if abs(parts[1][0]) < LEAST_PART * abs(parts[0][0]):
        return f" {parts[0][1]}{_waits(row)}"
    told = " and ".join(f"{format_signed_us(us)} {how}" for us, how in parts)
    return f" = {told}{_waits(row)}"


def _waits(row: TimeChange) -> str:
    return "; it waits for others" if row.is_waiting else ""


LEAST_COMMON = 0.01
"""Smallest change common to all functions that is separated."""
LEAST_SHARE = 0.01
"""Least share of the time in calls for a difference in the cost of findings to be named."""
MORE_COST = 2.0
LEAST_WAITED = 0.02
"""Least share of time in which threads waited for a core to be spoken of."""
MOST_SENTENCES = 3
LONG = 2.0
"""Factor over the usual runtime from which a call is a long one."""
SPREAD = 4.0
"""Factor by which long calls of one kind may be shorter than their mean."""


def sentences(found: Comparison) -> list[str]:
    """Return what changed, in sentences; the most important first."""
    named = [shift for shift in found.functions if shift.decisive.verdict in NAMED]
    shown = shown_names((shift.name for shift in named), short_name)
    told = [shift.name for shift in named[:MOST_SENTENCES]]
    lines = [headline(found.whole, found.times), *row_sentences(found.whole, found.times, told)]
    lines += [_sentence(shift, shown[shift.name]) for shift in named[:MOST_SENTENCES]]
    if len(named) > MOST_SENTENCES:
        lines.append(f"{len(named) - MOST_SENTENCES} more are slower or faster")
    if not named:
        lines.append(_nothing(found))
    lines.append(sum_sentence(found.whole))
    lines += map(_cost_sentence, cost_changes(found))
    lines += _metric_sentences("New in what the programs publish", found.metrics.new)
    lines += _metric_sentences("Gone from what the programs publish", found.metrics.vanished)
    if abs(found.common) >= LEAST_COMMON:
        way = "longer" if found.common > 0 else "less"
        lines.append(
            f"All functions take {format_share(abs(found.common))} {way}, "
            "as a rule because of the machine; that is no part of what is said of each"
        )
    lines.append(reach(found))
    return lines


def reach(found: Comparison) -> str:
    """Return a sentence about what these runs can tell, and what not."""
    if not found.has_several:
        spread = format_share(assumed_where(found.waited).of_function, ".2g")
        busy = ""
        if found.waited >= LEAST_WAITED:
            busy = f", as threads that could run waited {format_share(found.waited)} of the time for a core"
        return (
            "One run on each side cannot show how much equal runs differ: for one function "
            f"{spread} relative to the others is assumed{busy}. To compare several: "
            "'chimbuko compare --before A --before B --after C --after D'"
        )
    runs = f"{number_of(found.before.runs, 'runs')} before and {found.after.runs} after"
    return f"How much equal runs differ is measured from {runs}; times and calls are means per run"


def _nothing(found: Comparison) -> str:
    least = format_share(found.least_effect, "g")
    text = f"The calls of no function are longer or shorter by {least} or more, beyond what chance brings"
    total = found.total
    if not total.differs:
        return text
    way = "longer" if total.by_length_us > 0 else "shorter"
    return f"{text}; but all calls together take {way} than chance explains"


def _sentence(shift: Shift, name: str) -> str:
    change = shift.decisive
    lost = f"{format_duration_us(abs(change.lost_us))} {'lost' if change.lost_us > 0 else 'gained'} in all"
    others = "; it waits for others" if shift.is_waiting else ""
    if change.raw is not None and change.raw * change.lost_us < 0:
        return f"{name} takes {_raw(shift)}, but all functions changed: {_beyond(shift)}, {lost}{others}"
    return f"{name} is {change.verdict}{_by(shift)}, {lost}{others}"


def _raw(shift: Shift) -> str:
    first, second = ("" if us is None else format_duration_us(us) for us in shift.decisive_us)
    return f"{second} instead of {first}"


def _beyond(shift: Shift) -> str:
    return f"against them its calls are {shift.decisive.verdict} by {interval(shift.decisive)}"


def _by(shift: Shift) -> str:
    if shift.decided_by == "usual":
        return f": {interval(shift.usual)}"
    first, second = (format_duration_us(mean_us) for mean_us in shift.mean_us)
    return f" on average, {second} instead of {first} ({interval(shift.mean)}){_tail(shift)}"


def _tail(shift: Shift) -> str:
    """Return which long calls have come, or gone, in words."""
    both = shift.distribution
    if both is None or shift.ordinary_us[0] is None:
        return ""
    edges_us, before, after = (np.array(column) for column in (both.edges_us, both.before, both.after))
    runtimes_us = np.sqrt(np.maximum(edges_us[:-1], 0.5) * edges_us[1:])
    more = (after / after.sum() - before / before.sum()) * (1 if shift.mean_us[1] > shift.mean_us[0] else -1)
    more[(runtimes_us < LONG * shift.ordinary_us[0]) | (more < 0)] = 0.0
    added_us = more * runtimes_us
    if not added_us.any():
        return ""
    # Only the lengths that hold most of the time, and not what the machine brings beside them.
    is_long = runtimes_us > float((added_us * runtimes_us).sum() / added_us.sum()) / SPREAD
    share = float(more[is_long].sum())
    runtime_us = float(added_us[is_long].sum()) / share
    way = "more of its calls now" if shift.mean_us[1] > shift.mean_us[0] else "of its calls no longer"
    return f": {format_share(share, '.2g')} {way} take about {format_duration_us(runtime_us)}"


class CostChange(NamedTuple):
    """Change of the cost of the findings of one kind, where they cost clearly more, or less."""

    name: str
    before: Findings
    after: Findings

    @property
    def added_us(self) -> float:
        """Core time that they cost more, in µs."""
        return self.after.cost_us - self.before.cost_us


def cost_changes(found: Comparison) -> list[CostChange]:
    """Return the kinds of incidents and recurring findings that cost clearly more, or less."""
    differ, before, after = found.costs_differ, found.before, found.after
    both = (
        (differ.incidents, CostChange("Incidents", before.incidents, after.incidents)),
        (differ.recurring, CostChange("Recurring findings", before.recurring, after.recurring)),
    )
    least_us = LEAST_SHARE * max(before.exclusive_us, after.exclusive_us)
    return [
        change
        for may_differ, change in both
        if may_differ
        and abs(change.added_us) >= least_us
        and max(change.before.cost_us, change.after.cost_us)
        >= MORE_COST * min(change.before.cost_us, change.after.cost_us)
    ]


def _cost_sentence(change: CostChange) -> str:
    before, after = change.before, change.after
    return (
        f"{change.name} cost {bounded(after.cost_us, after.bound)} instead of "
        f"{bounded(before.cost_us, before.bound)} ({after.number} instead of {before.number})"
    )


def _metric_sentences(title: str, found: Sequence[str]) -> list[str]:
    lines = [f"{title}: {sentence.removesuffix('.')}" for sentence in found[:MOST_SENTENCES]]
    if len(found) > MOST_SENTENCES:
        lines.append(f"{title}: {len(found) - MOST_SENTENCES} more")
    return lines


def interval(change: Change) -> str:
    """Return the bounds of an effect, such as ``+8.1 to +12.0 %``."""
    if change.low is None or change.high is None:
        return ""
    return f"{format_signed(100 * change.low, '.1f')} to {format_change(change.high)}"
