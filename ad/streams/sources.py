"""Sources of a stream's steps: SST, a file that is being written, or a recorded one; the epoch of each
step, and the end of the stream.
"""

from __future__ import annotations

from pathlib import Path

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis
from chimbuko.ad.calls.stacks import MAIN_THREAD
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.trace.discovery import BP_FILE, SST, Transport, contact_of, read_mark_of
from chimbuko.capture.trace.reader import WAIT, StreamReader
from chimbuko.capture.trace.source import TraceSource, Waiting
from chimbuko.core.calls.record import READING
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import ROOT_TIMER_NAME, StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import NO_EPOCH

RECORDED_SILENCE_S = 1.0
"""Time in seconds without a step after which a recorded stream has no end: its writer died."""


def open_source(spec: StreamProcessSpec, first_step: int, names: StreamNames) -> TraceSource:
    """Open the stream of ``spec`` at a step; ``names`` are those that are known of it, and are added to.

    Raises
    ------
    TraceFormatError
        The stream cannot be opened.
    """
    path = Path(spec.path)
    if spec.transport is Transport.SST:
        return _Joined(path, spec, first_step, names)
    if spec.transport is Transport.FILES:
        kept = Path(spec.kept_trace) if spec.kept_trace else None
        return FollowedStream(path, spec.rank, spec.first_rank, first_step, names, kept, spec.is_ours)
    return RecordedSource(path, spec.rank, spec.first_rank, first_step, names)


def _check_contact(stream: Path, contact: str) -> None:
    """Check that a program that runs again has not replaced the contact file by its own."""
    if contact and contact_of(stream) not in (contact, ""):
        raise TraceFormatError(f"{stream}: its program had ended before it could be read")


class RecordedSource:
    """A recorded stream.

    Raises
    ------
    TraceFormatError
        The stream cannot be opened.
    """

    written_steps: int | None = None
    is_joining = False

    def __init__(self, path: Path, rank: int, first_rank: int, first_step: int, names: StreamNames) -> None:
        self._reader = StreamReader(
            path, BP_FILE, rank=rank, first_rank=first_rank, first_step=first_step, names=names
        )
        self.names = self._reader.names

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        """Return the next step; raises ``TraceFormatError`` for a damaged one."""
        step = self._reader.next_step(RECORDED_SILENCE_S)
        return Waiting.BROKEN if step is Waiting.NOT_READY else step

    def give_back(self, first_step: int) -> None:
        """Do nothing: a recorded stream stays as it is."""

    def end(self) -> None:
        """Do nothing: a recorded stream has been all there from the beginning."""

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()


class _Joined:
    """A stream over SST. Joining lasts until the first step has been read (``capture.trace.reader``)."""

    written_steps: int | None = None

    def __init__(self, path: Path, spec: StreamProcessSpec, first_step: int, names: StreamNames) -> None:
        self.is_joining = True
        _check_contact(path, spec.contact)
        self._reader = StreamReader(
            path, SST, rank=spec.rank, first_rank=spec.first_rank, first_step=first_step, names=names
        )
        try:
            # Another contact file may have come between the check and the opening.
            _check_contact(path, spec.contact)
        except TraceFormatError:
            self._reader.close()
            raise
        self.names = self._reader.names
        self._read_mark = read_mark_of(path)

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        """Return the next step; raises ``TraceFormatError`` for a damaged one. Where a time-out runs out just
        as a step arrives, ADIOS2 2.12 crashes the reader: so it waits without one.
        """
        step = self._reader.next_step(WAIT)
        if self.is_joining:
            self.is_joining = False
            # The program's own tracer may end before anybody has read anything.
            self._read_mark.touch()
        return step

    def give_back(self, first_step: int) -> None:
        """Do nothing: the writer has deleted the step."""

    def end(self) -> None:
        """Do nothing: the writer signals the end itself."""

    def close(self) -> None:
        self._reader.close()


# Progression of a stream: the epoch of a step, and whether the stream came to its end. No I/O.


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
