"""Rows of samples: each is what one thread, core, or the node did in an interval. Times are µs since 1970.

Rows are summed over intervals by how much of their time lies in each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.void]

VERSION = 2
"""Version of all rows: it changes with any of them."""

_INTERVAL = [("begin_us", "<i8"), ("length_us", "<u4")]

THREAD = np.dtype(
    [
        *_INTERVAL,
        ("pid", "<i4"),
        ("tid", "<i4"),
        ("ran_us", "<u4"),
        ("waited_us", "<u4"),  # while it could have run and its core was another's
        ("system_us", "<u4"),  # of what it ran; from the kernel's ticks of 10 ms
        ("minor_faults", "<u4"),
        ("major_faults", "<u4"),
        ("slices", "<u4"),  # how often it was put on a core
        ("migrations", "<u2"),  # how often it was found on another core than before
        ("core", "<i2"),  # where it ran last; -1 if that is not known
        ("call", "<i2"),  # system call that it slept in at the end (procfs.systemcalls)
        ("state", "S1"),  # at the end, the kernel's letter
    ]
)
"""A thread."""

CORE = np.dtype(
    [
        *_INTERVAL,
        ("cpu", "<i2"),
        *((name, "<u4") for name in ("user_us", "system_us", "idle_us", "steal_us")),
        ("own_us", "<u4"),  # of watched threads that ran there last
    ]
)
"""A hardware thread."""

OTHER = np.dtype(
    [
        *_INTERVAL,
        ("pid", "<i4"),
        ("core", "<i2"),  # where it ran last
        ("ran_us", "<u4"),
        ("name", "S16"),
        ("user", "S16"),
    ]
)
"""A process that is not watched, and ran meanwhile."""

NODE = np.dtype(
    [
        *_INTERVAL,
        ("memory_bytes", "<i8"),
        ("available_bytes", "<i8"),
        *((name, "<u4") for name in ("cpu_stall_us", "memory_stall_us", "io_stall_us")),
        ("throttled_us", "<u4"),  # a control group of watched processes was kept from its cores
        ("group_used_bytes", "<i8"),  # of the fullest of their control groups; 0 without a limit
        ("group_limit_bytes", "<i8"),
    ]
)
"""The node. Stalls: for how long some task of it waited for such a thing."""

GPU = np.dtype(
    [
        *_INTERVAL,
        ("gpu", "<i2"),
        ("pid", "<i4"),  # the watched process that uses it; ANYBODY, NOBODY
        ("foreign", "<u2"),  # how many processes use it that are not watched
        ("busy_us", "<u4"),  # a kernel ran on it
        ("throttled_us", "<u4"),  # it was slowed down for heat, or by its power supply
        ("memory_used_bytes", "<i8"),
        ("memory_total_bytes", "<i8"),
        ("energy_mj", "<u8"),
        ("temperature_c", "<i2"),
        ("name", "S32"),
    ]
)
"""A GPU; 0 is also what its library does not say."""

ANYBODY, NOBODY = 0, -1
"""Several watched processes use a GPU, or it is not known who; none of those that use it is watched."""


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
