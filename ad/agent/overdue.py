"""Which open calls are overdue: open far beyond what is known of their function. No I/O.

A hung rank completes no call, so the detectors, which judge completed calls, never see one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.ad.handoff.opencalls import OpenCalls
from chimbuko.ad.kernels.stack import UNCERTAIN, UNKNOWN
from chimbuko.core.arrays import Float64Array

LEAST_CALLS = 10
"""Completed calls below which nothing is known of a function; ``main`` never has as many."""
TIMES_LONGEST = 5.0
"""Of log-normal runtimes with σ = 1, as uneven as functions get, one in 350 is five times as long as the
longest of ten before it, and one in 600,000 as the longest of 1,000."""
LEAST_US = 5e6
"""Nobody acts upon a wait shorter than this, and the next step may simply be late."""
BLIND_PERIODS = 10
"""TAU publishes nothing of the calls of up to one period before a rank fell silent. A call that usually takes
this many periods was, nine times in ten, not ended by then."""


@dataclass(frozen=True)
class History:
    """What is known of the inclusive runtimes of the open calls' functions; f8[calls], in µs."""

    seen: Float64Array
    mean_us: Float64Array
    spread_us: Float64Array
    longest_us: Float64Array

    @property
    def limit_us(self) -> Float64Array:
        """Beyond this a call is overdue; infinite where too little is known."""
        limit_us = np.maximum(TIMES_LONGEST * self.longest_us, LEAST_US)
        return np.where(self.seen >= LEAST_CALLS, limit_us, np.inf)


def elapsed_us(
    opened: OpenCalls, history: History, silence_us: float, period_us: float, is_prompt: bool
) -> Float64Array:
    """For how long each open call is known, or very likely, to have been open; f8[calls].

    Parameters
    ----------
    silence_us
        Time since the stream gave its last step.
    period_us
        Usual time between two steps.
    is_prompt
        Whether the stream reports every event within a period, as our tracer's does. TAU's steps end only
        where a function other than MPI's returns on the main thread: the calls that were open at the last
        one may long have ended, unless they are slow ones.
    """
    known_us = opened.newest_us - opened.calls["entry_us"].astype(np.float64)
    is_open_still = is_prompt | (history.mean_us >= BLIND_PERIODS * period_us)
    elapsed: Float64Array = np.maximum(known_us + np.where(is_open_still, silence_us, 0.0), 0.0)
    return elapsed


def find_overdue(opened: OpenCalls, history: History, elapsed: Float64Array) -> npt.NDArray[np.intp]:
    """Indices of the overdue calls; where callers of an overdue call are overdue too, it stands for them."""
    calls = opened.calls
    is_trusted = calls["doubts"] & (UNKNOWN | UNCERTAIN) == 0
    overdue: npt.NDArray[np.intp] = np.flatnonzero(is_trusted & (elapsed > history.limit_us))
    # Threads are contiguous, with their innermost call last.
    threads = calls["thread"][overdue]
    is_innermost = np.ones(len(overdue), np.bool_)
    is_innermost[:-1] = threads[1:] != threads[:-1]
    return overdue[is_innermost]


def next_us(opened: OpenCalls, history: History, silence_us: float) -> float:
    """The trace time before which no call will be overdue, where none of these is: also of those that begin.

    As far as the history stays as it is: a function of which too little is known may have one five seconds
    later.
    """
    earliest_us = (opened.calls["entry_us"] + history.limit_us).min(initial=np.inf)
    return float(min(earliest_us, opened.newest_us + silence_us + LEAST_US))
