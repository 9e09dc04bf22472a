"""Sentences about a run as a whole: whether it is slower, and which functions make it so. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chimbuko.core.calls.functionnames import short_name, shown_names
from chimbuko.core.units import format_change, format_duration_us, format_signed_us
from chimbuko.provenance.compare.timechanges import TimeChange
from chimbuko.provenance.compare.wholechange import WholeChange

MOST_ROWS = 3
LEAST_TOLD = 1e-3
"""Least size of a part of the whole difference, against the largest part, for it to be told."""
LEAST_PART = 0.2
"""Least size of the smaller part of a change, against the larger one, for both to be told."""
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
