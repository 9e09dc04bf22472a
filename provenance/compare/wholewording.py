"""Sentences about a run as a whole: whether it is slower, and which functions make it so. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from chimbuko.core.calls.functionnames import short_name, shown_names
from chimbuko.core.units import format_change, format_duration_us, format_signed_us
from chimbuko.provenance.compare.timechanges import TimeChange
from chimbuko.provenance.compare.wholechange import WholeChange

MOST_ROWS = 3
ELSEWHERE = "time in no known call"
_WORSE = {"slower": "more", "faster": "less"}


def headline(whole: WholeChange, rows: Sequence[TimeChange]) -> str:
    """Return whether the run is slower or faster, and by what most of all."""
    before, after = (format_duration_us(us) for us in _told_us(whole))
    subject = "The run took" if any(whole.wall_us) else "All calls took"
    change = format_change(whole.effect)
    if whole.verdict == "same":
        return f"{subject} as long as before: {after} instead of {before} ({change})"
    if whole.verdict == "unclear":
        return f"{subject} {after} instead of {before} ({change}), by which runs of the same may differ"
    subject = "The run is" if any(whole.wall_us) else "All calls together are"
    first = leading_rows(whole, rows)[:1]
    cause = "".join(f"; most by {row_phrase(row, _name(row))}" for row in first)
    return f"{subject} {whole.verdict}: {after} instead of {before} ({change}){cause}"


def leading_rows(whole: WholeChange, rows: Sequence[TimeChange]) -> list[TimeChange]:
    """Return the rows that are sure and go the way of the whole, the largest first.

    Those of functions that wait come last, for they wait for others.
    """
    found = [row for row in rows if row.verdict == whole.verdict]
    return sorted(found, key=lambda row: (row.is_waiting, -abs(row.change_us)))


def row_sentences(whole: WholeChange, rows: Sequence[TimeChange]) -> list[str]:
    """Return a sentence for each row that is sure, after the one in the headline; few of them."""
    leading = leading_rows(whole, rows) if whole.verdict in _WORSE else []
    named = [row for row in rows if row.verdict in _WORSE and row not in leading[:1]]
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
        (whole.once_us, "in what is called once", "in what is called once"),
        (whole.waits_us, "in waits", "in waits"),
        (whole.new_us, "in new functions", ""),
        (whole.gone_us, "", "in functions that are gone"),
        (whole.elsewhere_us, f"of {ELSEWHERE}", f"of {ELSEWHERE}"),
    ]
    least_us = 1e-3 * max(abs(us) for us, _, _ in parts)
    told = [
        f"{format_signed_us(us)} {more if us > 0 else less}" for us, more, less in parts if abs(us) > least_us
    ]
    whole_us = format_signed_us(whole.change_us)
    return f"Time of all ranks: {before} before, {after} after: {whole_us}" + (
        f" = {', '.join(told)}"
        if len(told) > 1
        else f" {told[0].partition(' ')[2].partition(' ')[2]}"
        if told
        else ""
    )


def _told_us(whole: WholeChange) -> tuple[float, float]:
    return whole.wall_us if any(whole.wall_us) else whole.time_us


def _name(row: TimeChange) -> str:
    return short_name(row.name) if row.name else ""


def _why(row: TimeChange) -> str:
    first, second = row.calls
    if row.kind in ("more calls", "fewer calls"):
        return f" by {row.kind} ({second:,.0f} instead of {first:,.0f}){_waits(row)}"
    before, after = (
        format_duration_us(us / max(1.0, calls)) for us, calls in zip(row.time_us, row.calls, strict=True)
    )
    if row.kind in ("longer calls", "shorter calls"):
        return f" by {row.kind} (in the mean {after} instead of {before}){_waits(row)}"
    return f" ({row.kind}, {after} instead of {before})" if row.kind == "called once" else f" ({row.kind})"


def _waits(row: TimeChange) -> str:
    return "; it waits for others" if row.is_waiting else ""
