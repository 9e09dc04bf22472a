"""Description of the functions that a process left out, as the budget of its recorder decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Int64Array, UInt64Array
from chimbuko.core.units import number_of
from chimbuko.instrument.recorder.layout import FUNCTIONS, OPENMP
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

MOST_NAMED = 10
OTHERS = "functions beyond the first 4,095"
"""Name of all functions for which the recorder has no row."""

NamesOf = Callable[[Sequence[int]], list[str]]


def summed(counts: Iterable[UInt64Array]) -> Int64Array:
    """Return the sum of counts of rings by the rows of functions."""
    return sum((count.astype(np.int64) for count in counts), np.zeros(FUNCTIONS, np.int64))


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
    return said + _advice(keys, names)


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
