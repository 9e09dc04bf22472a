"""Rows by the time that they are of: which lie in an interval, by how much, and sums over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from chimbuko.monitor.sampling.nodebatch import Rows

_KEPT = ("pid", "tid", "cpu", "gpu", "name", "user", "core", "call", "state", "memory_bytes")
_LEAST = ("available_bytes",)
_MOST = (
    *("group_used_bytes", "group_limit_bytes", "foreign", "memory_used_bytes", "memory_total_bytes"),
    "temperature_c",
)


def ends_us(rows: Rows) -> npt.NDArray[np.int64]:
    """Return the end of each row's interval, i8[n]."""
    return np.asarray(rows["begin_us"] + rows["length_us"].astype(np.int64))


def joined(parts: Sequence[Rows], dtype: np.dtype[np.void]) -> Rows:
    """Return the rows of several parts: NumPy's ``concatenate`` takes 0.1 ms to compare their types."""
    if len(parts) == 1:
        return parts[0]
    out, at = np.empty(sum(map(len, parts)), dtype), 0
    for part in parts:
        out[at : at + len(part)] = part
        at += len(part)
    return out


def overlapping(rows: Rows, begin_us: int, end_us: int) -> Rows:
    """Return the rows whose interval has a part in common with another one."""
    return rows[(rows["begin_us"] < end_us) & (ends_us(rows) > begin_us)]


def overlaps_us(rows: Rows, begin_us: int, end_us: int) -> npt.NDArray[np.int64]:
    """Return the overlap of each row with an interval, in µs, int64[n]."""
    begins = np.maximum(rows["begin_us"], begin_us)
    return np.asarray(np.maximum(np.minimum(ends_us(rows), end_us) - begins, 0))


def summed(rows: Rows, keys: Sequence[str]) -> Rows:
    """Return one row for each value of ``keys``, over all rows that have it.

    What is no count is as in the latest row, the least or largest for memory. Sums stay within their type.
    """
    if not len(rows):
        return rows
    # By one column after the other: rows as a whole are compared ten times as slowly.
    rows = rows[np.lexsort([rows["begin_us"], *(rows[key] for key in reversed(keys))])]
    is_first = np.zeros(len(rows), bool)
    is_first[0] = True
    for key in keys:
        is_first[1:] |= rows[key][1:] != rows[key][:-1]
    first = np.flatnonzero(is_first)
    last = np.r_[first[1:], len(rows)] - 1
    out = rows[last].copy()
    out["begin_us"] = rows["begin_us"][first]
    for name in rows.dtype.names or ():
        if name in _LEAST:
            out[name] = np.minimum.reduceat(rows[name], first)
        elif name in _MOST:
            out[name] = np.maximum.reduceat(rows[name], first)
        elif name not in (*_KEPT, "begin_us"):
            total = np.add.reduceat(rows[name].astype(np.uint64), first)
            out[name] = np.minimum(total, np.iinfo(rows[name].dtype).max)
    out["length_us"] = np.minimum(ends_us(rows[last]) - out["begin_us"], np.iinfo(np.uint32).max)
    return np.asarray(out)
