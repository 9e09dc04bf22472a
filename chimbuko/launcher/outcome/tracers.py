"""What tracers of ours say of a program when it has ended, as lines of a summary."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chimbuko.core.traceschema import ENDING, LEFT_OUT_FUNCTIONS, NOT_RECORDED, UNTRACED_CHILDREN
from chimbuko.provenance.query.run import Provenance

MOST_SHOWN = 5
Texts = Mapping[str, str]
"""By stream, as ``program:rank``."""


class TracerReports(msgspec.Struct, frozen=True):
    """Texts of the streams of a run."""

    untraced: Texts
    """How many child processes of a rank were not traced, and what they were."""
    ended: Texts
    """How a rank died, and in what."""
    left_out: Texts
    """Functions that were called so often, and were so short, that they were not recorded any more."""
    unrecorded: Texts
    """What there was no room for."""


def tracer_reports(provenance: Provenance) -> TracerReports:
    """Read them from a store."""

    def texts(key: str) -> Texts:
        # Asked for by its beginning, "Ending" finds the "Ending Timestamp" of a program that is well, too.
        found = (m for m in provenance.metadata(key=key) if m.key == key)
        return {f"{m.program}:{m.rank}": m.value for m in found}

    return TracerReports(
        texts(UNTRACED_CHILDREN), texts(ENDING), texts(LEFT_OUT_FUNCTIONS), texts(NOT_RECORDED)
    )


def report_lines(reports: TracerReports) -> list[str]:
    """For people: of each kind the ranks with the most, or the first ones."""
    lines = [f"Died: rank {stream}: {text}" for stream, text in _first(reports.ended)]
    lines += _more(reports.ended, "died")
    lines += _untraced_lines(reports.untraced)
    lines += [f"Left out: {text}, of rank {stream}" for stream, text in _most(reports.left_out)]
    lines += _more(reports.left_out, "left out functions")
    lines += [f"Not recorded: {text}, of rank {stream}" for stream, text in _most(reports.unrecorded)]
    return lines + _more(reports.unrecorded, "did not record all")


def _first(texts: Texts) -> list[tuple[str, str]]:
    return list(texts.items())[:MOST_SHOWN]


def _most(texts: Texts) -> list[tuple[str, str]]:
    return sorted(texts.items(), key=lambda item: _number(item[1]), reverse=True)[:MOST_SHOWN]


def _more(texts: Texts, what: str) -> list[str]:
    return [f"... and {len(texts) - MOST_SHOWN} further ranks {what}"] if len(texts) > MOST_SHOWN else []


def _number(text: str) -> int:
    first = text.partition(" ")[0]
    return int(first) if first.isdecimal() else 0


def _untraced_lines(untraced: Texts) -> list[str]:
    if not untraced:
        return []
    named = "; ".join(f"{stream}: {text}" for stream, text in _most(untraced))
    more = f"; and of {len(untraced) - MOST_SHOWN} more ranks" if len(untraced) > MOST_SHOWN else ""
    total = sum(map(_number, untraced.values()))
    noun = "child process" if total == 1 else "child processes"
    return [f"Not traced: {total:,} {noun}, of rank {named}{more}"]
