"""What the GPUs of a node did while a call lost time, and what they usually do. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chimbuko.monitor.samples.intervals import overlaps_us
from chimbuko.monitor.samples.nodebatch import Rows
from chimbuko.monitor.samples.rows import ANYBODY

COVERED = 0.5
"""Of the time that was lost, which samples have to be of."""


@dataclass(frozen=True)
class GpuShares:
    """Of some time."""

    busy: float = 0.0
    throttled: float = 0.0


@dataclass(frozen=True)
class GpuSeen:
    """One GPU."""

    number: int
    now: GpuShares
    """In the time that was lost."""
    usual: GpuShares
    foreign: int
    """Processes that used it and are none of the program's, at most."""


def gpus_in(rows: Rows, usual: Rows, pid: int | None, begin_us: int, end_us: int) -> Iterator[GpuSeen]:
    """GPUs that a process may have used from one time to another, as far as samples are of that.

    Parameters
    ----------
    rows
        GPU rows, in no order; those of one GPU do not overlap.
    usual
        GPU rows of a longer time, which may contain the others.
    pid
        The process; None where it is not known.
    """
    inside_us = overlaps_us(rows, begin_us, end_us)
    is_its = (inside_us > 0) & np.isin(rows["pid"], (ANYBODY, -2 if pid is None else pid))
    for number in np.unique(rows["gpu"][is_its]).tolist():
        of_gpu = is_its & (rows["gpu"] == number)
        if inside_us[of_gpu].sum() < COVERED * (end_us - begin_us):
            continue
        yield GpuSeen(
            number,
            _shares(rows[of_gpu], inside_us[of_gpu] / np.maximum(rows["length_us"][of_gpu], 1)),
            _shares(of_usual := usual[usual["gpu"] == number], np.ones(len(of_usual))),
            int(rows["foreign"][of_gpu].max()),
        )


def _shares(rows: Rows, parts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> GpuShares:
    """Of these parts of rows."""
    length_us = float((rows["length_us"] * parts).sum())
    if length_us <= 0:
        return GpuShares()
    return GpuShares(*(float((rows[name] * parts).sum()) / length_us for name in ("busy_us", "throttled_us")))
