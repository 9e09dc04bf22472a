"""Slow, obvious twin of ``chimbuko.ad.calls.stacks``: lists, dicts, one object per call."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from chimbuko.ad.kernels import stack
from chimbuko.core.traceschema import COLLECTIVE_TYPE, MAX_TIME_US, EventType, StreamNames, TraceStep


@dataclass(eq=False)
class SlowCall:
    step: int
    row: int
    thread: int
    function: int
    entry: int
    parent: SlowCall | None
    depth: int
    exit: int = 0
    is_over: bool = False
    child_us: int = 0
    children: int = 0
    messages: int = 0
    flags: int = 0
    spent_us: int = 0
    """Exclusive time that its path has been given."""


@dataclass
class SlowThread:
    stack: list[SlowCall] = field(default_factory=list)
    last_time: int = 0
    entered: set[int] = field(default_factory=set)
    tie_time: int = 0
    """Latest instant of the step at which both an event and a point stood."""
    tie_first: SlowCall | None = None
    """Entered or left first at that instant."""
    tie_mpi: SlowCall | None = None
    """The first MPI call that was innermost at that instant."""
    tie_entered: SlowCall | None = None
    """The last MPI call that was entered then."""

    @property
    def top(self) -> SlowCall | None:
        return self.stack[-1] if self.stack else None


@dataclass
class SlowPoint:
    time: int
    thread: int
    is_message: bool
    is_collective: bool = False
    call: SlowCall | None = None
    is_usable: bool = True
    is_attached: bool = False


class SlowStacks:
    """Same meaning as ``CallStacks``."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.calls: list[SlowCall] = []
        self.carried = 0
        self.threads: dict[int, SlowThread] = {}
        self.losses: Counter[int] = Counter()
        self.gap_steps = 0
        self.messages: list[SlowPoint] = []
        self.counters: list[SlowPoint] = []
        self._merged: list[SlowPoint] = []
        self._times: list[int] = []
        self._expected = 0
        self._in_gap: dict[int, int] = {}
        """Last time before a gap of each thread without an event since."""
        self._names = StreamNames()

    def build(self, step: TraceStep, names: StreamNames) -> None:
        self._names = names
        for thread in self.threads.values():
            self._make_room(thread)
        self.calls = [call for call in self.calls if not call.is_over]
        self.carried = len(self.calls)
        if step.step != self._expected:
            self.gap_steps += max(step.step - self._expected, 0)
            for call in self.calls:
                call.flags |= stack.UNKNOWN
            for number, thread in self.threads.items():
                self._in_gap.setdefault(number, thread.last_time)
        self._leave_out_gaps(step.events.tolist())
        self._expected = step.step + 1
        for thread in self.threads.values():
            thread.tie_time = 0
        self.messages = self._points(step.comms.tolist(), 7, True)
        self.counters = self._points(step.counters.tolist(), 5, False)
        # From the last to the first: where arrays are not in order of time it matters.
        backwards = heapq.merge(self.messages[::-1], self.counters[::-1], key=lambda point: -point.time)
        self._merged = list(backwards)[::-1]
        self._times = []
        events = step.events.tolist()
        for row in range(len(events)):
            self._row(step.step, events, row)
        for number in self.threads:
            self._attach(number, MAX_TIME_US)

    def _leave_out_gaps(self, events: list[list[int]]) -> None:
        for number, last_us in list(self._in_gap.items()):
            times = [row[5] for row in events if row[2] == number]
            if times:
                del self._in_gap[number]
                gap_us = max(0, times[0] - last_us)
                opened = self.threads[number].stack
                if opened and gap_us < MAX_TIME_US:
                    opened[-1].spent_us += gap_us

    @property
    def interval_us(self) -> tuple[int, int] | None:
        return (min(self._times), max(self._times)) if self._times else None

    def _points(self, rows: list[list[int]], time_column: int, is_message: bool) -> list[SlowPoint]:
        points = []
        for row in rows:
            is_collective = is_message and row[3] == COLLECTIVE_TYPE
            point = SlowPoint(row[time_column], row[2], is_message, is_collective, is_usable=False)
            if row[0] != 0 or row[1] != self.rank:
                self.losses[stack.BAD_ORIGIN] += 1
            elif point.time == 0 or point.time >= MAX_TIME_US:
                self.losses[stack.BAD_TIME] += 1
            elif point.thread >= stack.MAX_THREAD_ID:
                self.losses[stack.BAD_THREAD] += 1
            else:
                point.is_usable = True
                self.threads.setdefault(point.thread, SlowThread())
            points.append(point)
        return points

    def _waiting(self, number: int) -> list[SlowPoint]:
        return [p for p in self._merged if p.is_usable and not p.is_attached and p.thread == number]

    def _attach(self, number: int, before: int) -> None:
        """Attach waiting points in order, up to the first that is not older than ``before``."""
        thread = self.threads[number]
        for point in self._waiting(number):
            if point.time >= before:
                break
            point.is_attached = True
            point.call = self._call_of(thread, point)
            if point.call is None:
                kind = stack.MESSAGE_OUTSIDE_CALLS if point.is_message else stack.COUNTER_OUTSIDE_CALLS
                self.losses[kind] += 1
            elif point.is_message:
                point.call.messages += 1

    def _call_of(self, thread: SlowThread, point: SlowPoint) -> SlowCall | None:
        if point.time != thread.tie_time:
            return thread.top
        entered = thread.tie_entered if point.is_collective else None
        return entered or (thread.tie_mpi if point.is_message else None) or thread.tie_first

    def _row(self, step: int, events: list[list[int]], row: int) -> None:
        program, rank, number, event_type, timer, time = events[row]
        is_entry = event_type == self._names.event_type_id(EventType.ENTRY)
        is_exit = event_type == self._names.event_type_id(EventType.EXIT)
        if program != 0 or rank != self.rank:
            self.losses[stack.BAD_ORIGIN] += 1
            return
        if not (is_entry or is_exit):
            self.losses[stack.BAD_EVENT_TYPE] += 1
            return
        if number >= stack.MAX_THREAD_ID:
            self.losses[stack.BAD_THREAD] += 1
            return
        thread = self.threads.setdefault(number, SlowThread())
        if timer >= stack.MAX_UNNAMED_TIMERS and timer not in self._names.timers:
            self.losses[stack.BAD_TIMER] += 1
            self._distrust(thread.top)
            return
        time, suspect = self._time(thread, time, events[row + 1] if row + 1 < len(events) else None, number)
        if timer not in self._names.timers:
            self.losses[stack.UNNAMED_TIMER] += 1
        self._attach(number, time)
        waiting = self._waiting(number)
        is_tied = bool(waiting) and waiting[0].time == time
        if is_tied and thread.tie_time != time:
            thread.tie_time = time
            thread.tie_first = thread.top if is_exit else None
            thread.tie_mpi = thread.top if self._is_mpi(thread.top) else None
            thread.tie_entered = None
        if is_entry:
            self._enter(
                thread, SlowCall(step, row, number, timer, time, thread.top, len(thread.stack)), suspect
            )
        elif not self._leave(thread, timer, time, suspect):
            return
        if is_tied:
            thread.tie_first = thread.tie_first or thread.top
            thread.tie_mpi = thread.tie_mpi or (thread.top if self._is_mpi(thread.top) else None)
            if is_entry and self._is_mpi(thread.top):
                thread.tie_entered = thread.top

    def _time(
        self, thread: SlowThread, time: int, following: list[int] | None, number: int
    ) -> tuple[int, bool]:
        """The time to use, and whether it is suspect."""
        suspect = False
        if 0 < time < MAX_TIME_US:
            self._times.append(time)
        if time == 0 or time >= MAX_TIME_US:
            time, suspect = max(thread.last_time, 1), True
            self.losses[stack.TIME_REVERSED] += 1
        elif time < thread.last_time:
            suspect = True
            self.losses[stack.TIME_REVERSED] += 1
        elif following is not None and following[2] == number and following[5] < time:
            suspect = True
        thread.last_time = time
        return time, suspect

    def _enter(self, thread: SlowThread, call: SlowCall, suspect: bool) -> None:
        if suspect:
            self._distrust(call)
        if call.function not in thread.entered:
            thread.entered.add(call.function)
            call.flags |= stack.FIRST
        thread.stack.append(call)
        self.calls.append(call)

    def _make_room(self, thread: SlowThread) -> None:
        """A stack that is too deep loses its inner half."""
        if len(thread.stack) <= stack.MAX_DEPTH:
            return
        while len(thread.stack) > stack.MAX_DEPTH // 2:
            self._give_up(thread)
            self.losses[stack.TOO_DEEP] += 1
        for call in thread.stack:
            self._distrust(call)

    def _give_up(self, thread: SlowThread) -> SlowCall:
        call = thread.stack.pop()
        call.is_over = True
        if call.parent is not None:
            call.parent.child_us += call.child_us + call.spent_us
        return call

    def _leave(self, thread: SlowThread, function: int, time: int, suspect: bool) -> bool:
        in_reach = thread.stack[-1 - stack.MAX_DEPTH :]
        if function not in [call.function for call in in_reach]:
            self.losses[stack.EXIT_WITHOUT_ENTRY] += 1
            self._distrust(thread.top)
            return False
        while thread.stack[-1].function != function:
            given_up = self._give_up(thread)
            given_up.flags |= stack.LOST
            self.losses[stack.LOST_EXIT] += 1
            self._distrust(thread.stack[-1] if thread.stack[-1].function == function else None)
        call = thread.stack.pop()
        call.is_over = True
        call.exit = max(time, call.entry)
        inclusive_us = call.exit - call.entry
        if time < call.entry or call.child_us > inclusive_us or suspect:
            call.child_us = min(call.child_us, inclusive_us)
            self._distrust(call)
            self._distrust(call.parent)
        if call.parent is not None:
            call.parent.child_us += inclusive_us
            call.parent.children += 1
        return True

    def _distrust(self, call: SlowCall | None) -> None:
        if call is not None:
            call.flags |= stack.UNCERTAIN

    def _is_mpi(self, call: SlowCall | None) -> bool:
        return call is not None and self._names.timers.get(call.function, "").startswith("MPI_")
