"""Writer: the process that writes the stream of a traced program.

It stands beside the program because ADIOS2 holds Python's lock wherever it waits for a reader
(measured: 1.1 s in one step with a slow reader, for ever in one that waits for its first reader),
and because a program that is killed cannot finish its own stream. The family's writer server forks it. It
reads handovers from the program's connection until that ends, and reports there, in one line, how it ended.

Over SST a reader is let in when a step is written, and begins with the first step. A reader needs some
time to come, so the first step is never short, and a program that ends before anybody has read it waits
a little, with empty steps that let a reader in.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from chimbuko.capture.trace.discovery import read_mark_of
from chimbuko.capture.trace.tausettings import WriterSettings, claim
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.sourcecensus import (
    CALL_COUNTS,
    CALLS_SEEN,
    LEFT_OUT,
    census_from,
    parse_census,
)
from chimbuko.core.traceschema import (
    ARRAY_COLUMNS,
    COMMS,
    COUNTERS,
    ENDING,
    EVENT_TYPE,
    EVENTS,
    NOT_RECORDED,
    PARENT_PROCESS,
    UNTRACED_CHILDREN,
    EventType,
    StreamNames,
)
from chimbuko.instrument.tracer.chunks import COMPLETE, Handover, Header
from chimbuko.instrument.tracer.members import Members, Started, State
from chimbuko.instrument.tracer.places import Place
from chimbuko.instrument.tracer.rejoining import MemberLine
from chimbuko.instrument.tracer.steps import LARGEST_STEP_BYTES, MAIN_THREAD, Step, StepBuilder
from chimbuko.instrument.tracer.writerserverstart import ENDING_SIGNALS

STUCK_AFTER_S = 10
"""Longest wait for ADIOS2: beyond it a reader is stuck, and the writer ends, so that no process is left."""
FIRST_STEP_S = 1.0
"""Least duration of the first step of a live stream: a reader comes some 0.4 s after the stream."""
READER_WAIT_S = 5.0
"""Longest wait for the first reader, from the beginning of a stream: a busy node takes 2 s to start one."""
EMPTY_STEP_PERIOD_S = 0.5
"""Time between two empty steps: far longer than a reader that was let in takes to read the first step."""
LOOK_PERIOD_S = 0.02
"""Time between two looks whether the first step was read, or the parent has a rank."""
PARENT_WAIT_S = 7.0
"""Longest wait for the parent's rank at the end of a stream: MPI may say it only when it is initialised."""

_REFUSED = "child processes were not traced: too many at a time, or in all"

NO_EVENTS, NO_COMMS, NO_COUNTERS = (
    np.empty((0, ARRAY_COLUMNS[name]), np.uint64) for name in (EVENTS, COMMS, COUNTERS)
)


Joined = Callable[[Iterator[Handover], int, int], Iterator[Handover]]
"""Function that adds to the handovers of a process, of this id and rank, what others have recorded of it."""


def alone(handovers: Iterator[Handover], pid: int, rank: int) -> Iterator[Handover]:
    """Return the handovers of a process that nobody else records."""
    return handovers


def serve_member(
    line: MemberLine, pid: int, header: Header, members: Members, number: int, place: Place, joined: Joined
) -> None:
    """Write the stream of one member of a family, and report to it how that ended.

    Parameters
    ----------
    line
        Line to the member, after the header.
    pid
        Process id of the member.
    members, number
        Table of the family, and the row of the member.
    place
        Place of the member.
    joined
        Function that adds what others have recorded of the member.
    """
    os.setsid()
    try:
        handovers = joined(line.handovers(STUCK_AFTER_S), pid, header.rank)
        Writing(header, pid, members, number, place).write_stream(handovers)
        last_word = COMPLETE
        if not number and members.refused:
            last_word += f"\n{members.refused} {_REFUSED}"
    except ChimbukoError as error:
        last_word = str(error)
    except Exception as error:
        last_word = f"{type(error).__name__}: {error}".splitlines()[0]
    members.set_state(number, State.ENDED)
    # The program may have been killed, or may not wait for this.
    with suppress(OSError):
        line.peer.sendall(last_word.encode())


class Writing:
    """Writing of the stream of one member of a family.

    Parameters
    ----------
    header, pid
        Header and process id of the member.
    members, number
        Table of the family, and the row of the member.
    place
        Place of the member.
    note_stored
        Function that is called after each step with the number of rows that are in no step yet.

    Raises
    ------
    ChimbukoError
        The settings are not usable.
    """

    def __init__(
        self,
        header: Header,
        pid: int,
        members: Members,
        number: int,
        place: Place,
        note_stored: Callable[[int], None] = lambda waiting: None,
    ) -> None:
        self._settings = WriterSettings.from_environment(os.environ)
        self._header = header
        self._pid = pid
        self._members = members
        self._number = number
        self._started = Started()
        self._builder = StepBuilder(header)
        self._note_stored = note_stored
        self._calls = 0
        """Calls that were written."""
        self._first_rank = self._claimed(place)
        members.set_rank(number, self._first_rank + header.rank)
        self._is_parent_reported = not header.parent_pid

    def _claimed(self, place: Place) -> int:
        """Claim a first rank that no other family of this run adds to this rank; return it."""
        first_rank = place.first_rank
        while True:
            path = self._settings.stream_path(self._header.program, self._header.rank, first_rank)
            if not self._settings.has_instances or claim(path):
                return first_rank
            first_rank += place.size

    def _report_of_parent(self, is_last: bool) -> None:
        if self._is_parent_reported:
            return
        pid = self._header.parent_pid
        if is_last:
            self._await_rank_of(pid)
        rank = self._members.rank_of(pid)
        if rank is not None or is_last:
            self._is_parent_reported = True
            known = "" if rank is None else f"rank {rank}, "
            self._describe(PARENT_PROCESS, f"{known}pid {pid}")

    def _await_rank_of(self, pid: int) -> None:
        """Wait for the writer of a process to say its rank: both may have begun at the same moment."""
        latest = time.monotonic() + PARENT_WAIT_S
        while self._members.will_have_rank(pid) and time.monotonic() < latest:
            time.sleep(LOOK_PERIOD_S)
        signal.alarm(STUCK_AFTER_S)

    def _describe(self, key: str, value: str) -> None:
        self._builder.names.metadata[self._header.rank, 0, key] = value

    def write_stream(self, handovers: Iterable[Handover]) -> None:
        """Write all that is handed over as one stream, in steps of at least the period.

        If no handover says that it is the last, the program was killed.

        Raises
        ------
        ChimbukoError
            The settings are not usable, or the stream cannot be written.
        """
        settings, builder = self._settings, self._builder
        name = self._header.program, self._header.rank, self._first_rank
        read_mark = read_mark_of(settings.stream_path(*name))
        with suppress(OSError):
            # The mark may be that of an earlier stream of this name.
            read_mark.unlink()
        signal.alarm(STUCK_AFTER_S)
        with settings.open(*name) as stream:
            # Once more: SST has installed a handler of its own.
            ignore_signals()
            began = last_cut = time.monotonic()
            period_s = settings.period_us * 1e-6
            step_s = max(period_s, FIRST_STEP_S) if settings.is_live else period_s
            end_ns = None
            for handover in handovers:
                signal.alarm(STUCK_AFTER_S)
                builder.add(handover)
                self._report_of_parent(is_last=False)
                self._started.add(handover.children)
                if handover.is_last:
                    end_ns = handover.complete_until_ns
                    break
                is_due = settings.is_periodic and time.monotonic() - last_cut >= step_s
                if builder.size_bytes and (is_due or builder.size_bytes > LARGEST_STEP_BYTES):
                    self._write_steps(stream, builder.cut())
                    last_cut, step_s = time.monotonic(), period_s
            self._members.set_state(self._number, State.ENDED)
            self._report_of_parent(is_last=True)
            self._report_of_children()
            is_killed_child = end_ns is None and self._number > 0
            # The recorder describes the end itself.
            if is_killed_child and (self._header.rank, 0, ENDING) not in builder.names.metadata:
                self._describe(ENDING, "killed, or ended at once: its last 0.1 s may be missing")
            last = builder.cut_last_of_killed() if is_killed_child else builder.cut_last(end_ns)
            if end_ns is not None:
                self._say_census(last)
            self._write_steps(stream, last)
            # Whoever kills a program expects that no process of it is left.
            if settings.is_live and end_ns is not None:
                _await_reader(stream, builder.names, read_mark, began + READER_WAIT_S)
        if not self._number:
            self._await_children()

    def _say_census(self, last: Sequence[Step]) -> None:
        """Say how many calls were seen, with what the recorder says of those that it did not hand over."""
        metadata, at = self._builder.names.metadata, (self._header.rank, MAIN_THREAD)
        written = self._calls + _entries(last)
        sources = {"Python Version": "the Python tracer", "Recorder": "the recorder"}
        source = " and ".join(name for key, name in sources.items() if (*at, key) in metadata)
        counted = census_from(source, metadata.get((*at, CALL_COUNTS)), written)
        said = parse_census(metadata.get((*at, CALLS_SEEN)))
        if said is None and counted.unwritten.keys() <= {LEFT_OUT} and (*at, NOT_RECORDED) in metadata:
            # Something is missing of which nobody knows how many calls it was.
            return
        census = said or counted
        self._describe(CALLS_SEEN, census.text())
        if self._settings.is_live:
            name = self._header.program, self._header.rank, self._first_rank
            census.leave_beside(self._settings.stream_path(*name))

    def _write_steps(self, stream: StreamWriter, steps: Iterable[Step]) -> None:
        names = self._builder.names
        for step in steps:
            self._calls += _entries([step])
            stream.write_step(step.events, step.comms, step.counters, names, step.details, step.operations)
        self._note_stored(self._builder.row_count)

    def _report_of_children(self) -> None:
        started = self._started
        untraced = self._members.not_traced(self._pid, started.forks, started.programs, started.others)
        if untraced:
            self._describe(UNTRACED_CHILDREN, untraced)

    def _await_children(self) -> None:
        """Wait until the streams of processes that ended before are whole: the first process ends the run."""
        signal.alarm(0)
        self._members.set_state(self._number, State.OVER)
        latest = time.monotonic() + READER_WAIT_S
        while self._members.is_any_ending() and time.monotonic() < latest:
            time.sleep(LOOK_PERIOD_S)


def _entries(steps: Iterable[Step]) -> int:
    return sum(int(np.count_nonzero(step.events[:, EVENT_TYPE] == EventType.ENTRY)) for step in steps)


def _await_reader(stream: StreamWriter, names: StreamNames, read_mark: Path, latest: float) -> None:
    """Let a reader in and wait until it has read the first step, which waits for it, or until ``latest``."""
    empty_step_at = time.monotonic() + EMPTY_STEP_PERIOD_S
    while not read_mark.exists() and (now := time.monotonic()) < latest:
        if now >= empty_step_at:
            signal.alarm(STUCK_AFTER_S)
            stream.write_step(NO_EVENTS, NO_COMMS, NO_COUNTERS, names)
            empty_step_at = time.monotonic() + EMPTY_STEP_PERIOD_S
        time.sleep(LOOK_PERIOD_S)
    signal.alarm(STUCK_AFTER_S)


def ignore_signals() -> None:
    """Ignore signals that a scheduler sends to all processes of a job: a writer ends when its input does."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
