"""Progression of a stream: the epoch of a step, and whether the stream came to its end. No I/O."""

from __future__ import annotations

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis
from chimbuko.ad.calls.stacks import MAIN_THREAD
from chimbuko.core.calls.record import READING
from chimbuko.core.traceschema import ROOT_TIMER_NAME, StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import NO_EPOCH


def epoch_of(step: TraceStep, period_us: int) -> int:
    """Return the epoch in which a step ends; ``NO_EPOCH`` for one without a time of its own."""
    interval_us = step.interval_us()
    return NO_EPOCH if interval_us is None else interval_us[1] // period_us


def has_ended(analysis: StreamAnalysis, names: StreamNames, last: TraceStep | None) -> bool:
    """Return whether the program was seen to end. A last step that was never written, or thrown away because
    the reader was too slow, leaves no gap behind it.

    Parameters
    ----------
    last
        Last step with events that this process has read; None if it has read none.
    """
    timers = names.timers
    if ROOT_TIMER_NAME not in timers.values():
        return not analysis.stacks.is_main_open
    if last is None:
        # A predecessor has analysed the last step, or there was no call in any.
        return analysis.health(READING).calls > 0 and not analysis.stacks.is_main_open
    timer = last.last_timer(MAIN_THREAD)
    return timer is not None and timers.get(timer) == ROOT_TIMER_NAME
