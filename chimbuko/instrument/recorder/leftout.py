"""Description of what a process did not record: functions left out by the budget, and what had no room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import BoolArray, Int64Array, UInt64Array
from chimbuko.core.sourcecensus import LEFT_OUT, UNCOUNTED
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.layout import FUNCTIONS, OPENMP
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

MOST_NAMED = 10
OTHERS = "functions beyond the first 4,095"
"""Name of all functions for which the recorder has no row."""

NamesOf = Callable[[Sequence[int]], list[str]]
_NO_ROOM = "for which there was no room"
_TOO_DEEP = "nested too deeply"
_INTERRUPTING = "of signals' handlers that came while an event was written"
_STACKLESS = "on more stacks than there are lanes for"
_MOST_DROPPED = 5
QUIET_NS = 1_000_000_000
"""Time without a call that is not recorded, after which a function counts as recorded again: ten looks."""


def summed(counts: Iterable[UInt64Array]) -> Int64Array:
    """Return the sum of counts of rings by the rows of functions."""
    return sum((count.astype(np.int64) for count in counts), np.zeros(FUNCTIONS, np.int64))


class LeftOutAtTimes:
    """Functions of which calls may be missing in what is taken, by their rows in the file of the process.

    One that was left out for a moment, as when the next phase of a program began, is recorded again after a
    while without such calls, so that its callers are judged by their own time alone. The next time it stays.
    """

    def __init__(self, process: ProcessFile) -> None:
        self._process = process
        self._is_out = np.zeros(FUNCTIONS, np.bool_)
        self._has_ended = np.zeros(FUNCTIONS, np.bool_)
        self._calls = np.zeros(FUNCTIONS, np.int64)
        """Calls of each that were not recorded."""
        self._changed_ns = np.zeros(FUNCTIONS, np.int64)
        """Time at which there were more of them."""

    def look(self, rings: Sequence[Ring], now_ns: int) -> BoolArray:
        """Return which are left out at times, bool[rows], after the events of the rings were taken."""
        table = self._process.field("functions")
        (rows,) = np.nonzero(table["out_ns"] > 0)
        calls = np.zeros(len(rows), np.int64)
        for ring in rings:
            calls += (ring.left_out()[rows] + ring.dropped()[rows]).astype(np.int64)
        is_first = ~self._is_out[rows] & ~self._has_ended[rows]
        has_changed = is_first | (calls != self._calls[rows])
        self._calls[rows] = calls
        self._is_out[rows[has_changed]] = True
        self._changed_ns[rows[has_changed]] = now_ns
        # Calls that are disarmed are not counted. Row 0 is for all functions without one.
        is_counted = (table["uncounted_ns"][rows] == 0) & (rows > 0)
        is_over = is_counted & ~self._has_ended[rows] & (now_ns - self._changed_ns[rows] >= QUIET_NS)
        self._is_out[rows[is_over]], self._has_ended[rows[is_over]] = False, True
        return self._is_out


def describe_left_out(process: ProcessFile, rings: Sequence[Ring], names_of: NamesOf) -> str:
    """Describe which functions were left out, how often, and how to exclude them for good; empty for none."""
    table = process.field("functions")
    calls = summed(ring.left_out() for ring in rings)
    (rows,) = np.nonzero((calls > 0) | (table["uncounted_ns"] > 0))
    if not len(rows):
        return ""
    rows = rows[np.argsort(-calls[rows], kind="stable")]
    first = rows[:MOST_NAMED]
    keys = [int(key) for key in table["key"][first]]
    names = [name if key else OTHERS for key, name in zip(keys, names_of(keys), strict=True)]
    counted = [f"{calls[row]} of {name}" for row, name in zip(first, names, strict=True) if calls[row]]
    if others := len(rows) - len(first):
        counted.append(f"and {number_of(others, 'other functions')}")
    said = f"{int(calls[rows].sum())} calls" + (f" ({', '.join(counted)})" if counted else "")
    said += _uncounted(process, table, rows, dict(zip(first.tolist(), names, strict=True)))
    said += f"; their time is in that of their callers; the recorder's budget is {process.overhead:.2%}"
    return said if process.number("is_prepared") else said + _advice(keys, names)


def _uncounted(
    process: ProcessFile, table: npt.NDArray[np.void], rows: npt.NDArray[np.intp], names: dict[int, str]
) -> str:
    """Return the times in which calls were not even counted, as their call sites were disarmed."""
    start_ns = process.number("start_ns")
    texts = []
    disarmed = [int(row) for row in rows if table["uncounted_ns"][row]]
    for row in disarmed:
        if row not in names:
            continue
        since, until = (int(table[field][row]) for field in ("uncounted_ns", "counted_ns"))
        text = f"of {names[row]} from {(since - start_ns) / 1e9:.2f} s"
        text += f" to {(until - start_ns) / 1e9:.2f} s" if until else " on"
        samples = int(table["samples"][row])
        texts.append(text + (f", but for {number_of(samples, 'samples')}" if samples else ""))
    if not disarmed:
        return ""
    if others := len(disarmed) - len(texts):
        texts.append(f"{'and ' * bool(texts)}of {number_of(others, 'other functions')}")
    return f", and those not counted {'; '.join(texts)}"


def _advice(keys: Sequence[int], names: Sequence[str]) -> str:
    functions = [name.partition("(")[0] for key, name in zip(keys, names, strict=True) if 0 < key < OPENMP]
    # The name of a template has commas, which separate functions in the compiler's list.
    plain = [name for name in functions if "<" not in name]
    flags = [f"-finstrument-functions-exclude-function-list={','.join(plain)}"] if plain else []
    flags += ["-finstrument-functions-exclude-file-list=/usr/include"] if len(plain) < len(functions) else []
    return f"; to exclude them for good compile with {' '.join(flags)}" if flags else ""


def call_counts(process: ProcessFile, rings: Sequence[Ring], recorded: int) -> dict[str, int]:
    """Return how many calls were seen, recorded, and not recorded by each reason; 0 if there were none.

    Calls of threads that have no ring are not seen, nor those of call sites that are disarmed.

    Parameters
    ----------
    recorded
        Number of calls that were recorded.
    """
    reasons = {LEFT_OUT: int(summed(ring.left_out() for ring in rings).sum()), **_by_reason(rings)}
    uncounted = int(np.count_nonzero(process.field("functions")["uncounted_ns"]))
    seen = recorded + sum(reasons.values())
    return {"seen": seen, "recorded": recorded, **reasons, UNCOUNTED: uncounted}


def _by_reason(rings: Sequence[Ring]) -> dict[str, int]:
    return {
        _NO_ROOM: _sum(rings, "dropped_calls"),
        _TOO_DEEP: _sum(rings, "too_deep"),
        _INTERRUPTING: _sum(rings, "interrupting_calls"),
        _STACKLESS: _sum(rings, "stackless_calls"),
    }


def describe_unseen(process: ProcessFile, rings: Sequence[Ring], names_of: NamesOf) -> list[str]:
    """Describe what was not recorded but for the functions that are left out: an entry for each kind."""
    reasons = {reason: number for reason, number in _by_reason(rings).items() if number}
    found = []
    if calls := sum(reasons.values()):
        why = ", ".join(
            f"{number} {reason}" if len(reasons) > 1 else reason for reason, number in reasons.items()
        )
        found.append(f"{calls} calls {why}{_by_function(process, rings, names_of)}")
    others = {
        "messages and counters": _sum(rings, "dropped_rows"),
        "threads": process.number("threads_without_ring"),
        "messages beyond the table of requests": process.number("lost_requests"),
        "ends of calls that began on another thread": _sum(rings, "strayed_calls"),
        "tasks of OpenMP, which GCC's runtime hides": process.number("unseen_tasks"),
    }
    return found + [f"{number} {what}" for what, number in others.items() if number]


def _by_function(process: ProcessFile, rings: Sequence[Ring], names_of: NamesOf) -> str:
    keys, calls = process.field("functions")["key"], summed(ring.dropped() for ring in rings)
    (rows,) = np.nonzero((calls > 0) & (keys > 0))
    if not len(rows):
        return ""
    rows = rows[np.argsort(-calls[rows], kind="stable")][:_MOST_DROPPED]
    names = names_of([int(key) for key in keys[rows]])
    parts = [f"{calls[row]} of {name}" for row, name in zip(rows, names, strict=True)]
    others = int(calls.sum() - calls[rows].sum())
    parts += [f"{others} of others"] if others else []
    return f" ({', '.join(parts)})"


def _sum(rings: Sequence[Ring], field: str) -> int:
    return sum(ring.number(field) for ring in rings)
