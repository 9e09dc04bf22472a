"""Trace file in PerfFlowAspect's format, for the annotated functions of a native program."""

from __future__ import annotations

import itertools
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.eventfile import UNUSED, Event, EventFile, Usage, head, lines
from chimbuko.instrument.annotations.options import VARIABLE, Options, file_name, instance_path, parse_options
from chimbuko.instrument.annotations.pointcuts import FLOWS, Advice, AnnotatedName, Flows
from chimbuko.instrument.recorder.layout import Kind
from chimbuko.instrument.recorder.ring import Events, ProcessFile


def asked_options(environment: Mapping[str, str]) -> Options | None:
    """Return the options of the trace file; None if no file is asked for, or the options are invalid."""
    try:
        options = parse_options(environment[VARIABLE])
    except (KeyError, ConfigError):
        return None
    return options if options.is_enabled else None


USER_TIME, SYSTEM_TIME, THREAD_TIME, PEAK_MEMORY = COUNTERS = (
    "user time of the process (us)",
    "system time of the process (us)",
    "CPU time of the thread (us)",
    "peak memory of the process (KiB)",
)
"""Names of the counters that the library writes before a call and its end, where usage is asked for."""
KIB_KB = 1.024


@dataclass
class _Call:
    begun_ns: int
    number: int
    used: dict[str, float]
    """Values of the counters at the begin of the call, by name."""


class AnnotatedCalls:
    """Trace file of one process.

    Parameters
    ----------
    process
        The process that made the calls.
    options
        Format and name of the file.
    environment
        Environment that says where the process stands in nested workflows.
    """

    def __init__(self, process: ProcessFile, options: Options, environment: Mapping[str, str]) -> None:
        self._pid = process.number("pid")
        self._offset_ns = process.number("clock_offset_ns")
        self._process = process
        self._is_compact = options.is_compact
        name = file_name(options, instance_path(environment), platform.node(), self._pid)
        self._file = EventFile(os.path.join(options.folder, name), options.is_object)
        self._names: dict[int, AnnotatedName] = {}
        self._heads: dict[tuple[int, str], str] = {}
        """Heads of the lines of a function, by the key of its calls and the phase of the event."""
        self._waiting: list[tuple[int, int, int, int, int]] = []
        """Events to write: time, thread, lane, kind, and key of the call, or row of the counter in
        ``_counted``."""
        self._counted: list[tuple[str, float]] = []
        """Counters and their values, in the order of the events."""
        self._used: dict[int, dict[str, float]] = {}
        """Newest values of the counters, by lane."""
        self._open: dict[tuple[int, int], list[_Call]] = {}
        """Open calls by lane and function, the outermost first."""
        self._flows = Flows()
        self._numbers = itertools.count(1)

    def add(self, key: int, name: AnnotatedName) -> None:
        """Add an annotated function by the key of its calls."""
        self._names[key] = name
        short = name.short
        phases = ("X", "C", *name.advice.phases)
        self._heads |= {(key, phase): head(short, name.file, phase) for phase in phases}
        self._heads |= {(key, phase): head("flow", name.file, phase) for phase in "sf"}

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._file.path

    def note(self, thread: int, events: Events, lane: int) -> None:
        """Take in the events of one lane of a thread, which is given by its native id."""
        keys = np.fromiter(self._names, np.uint64, len(self._names))
        is_counter = events["kind"] == Kind.COUNTER
        known = events[(events["kind"] <= Kind.EXIT) & np.isin(events["value"], keys) | is_counter]
        columns = (known[name].tolist() for name in ("time_ns", "kind", "value", "tag"))
        values = known["value"].view(np.float64).tolist()
        for time_ns, kind, key, tag, value in zip(*columns, values, strict=True):
            if kind != Kind.COUNTER:
                self._waiting.append((time_ns, thread, lane, kind, key))
            elif (name := self._process.name(tag)) in COUNTERS:
                self._waiting.append((time_ns, thread, lane, kind, len(self._counted)))
                self._counted.append((name, value))

    def write(self) -> None:
        """Write all events that were taken in.

        Raises
        ------
        OSError
            The disk has no room.
        """
        waiting, self._waiting = self._waiting, []
        # Events of all threads in order of time: the next call that takes a flow ends it.
        waiting.sort(key=lambda event: event[0])
        if events := [event for one in waiting for event in self._events(*one)]:
            self._file.append(lines(events, self._pid, self._offset_ns))
        self._counted.clear()

    def _events(self, time_ns: int, thread: int, lane: int, kind: int, key: int) -> Iterator[Event]:
        used = self._used.setdefault(lane, {})
        if kind == Kind.COUNTER:
            used.update([self._counted[key]])
            return
        advice = self._names[key].advice
        calls = self._open.setdefault((lane, key), [])
        begin_flow, end_flow = FLOWS[advice.flow]
        begin, end = advice.phases
        is_whole = advice.is_whole(self._is_compact)
        if kind == Kind.ENTRY:
            calls.append(call := _Call(time_ns, next(self._numbers), dict(used)))
            yield from self._flow(begin_flow, key, thread, time_ns)
            if begin and not is_whole:
                yield self._heads[key, begin], thread, time_ns, _tail(advice, call)
        elif calls:
            call = calls.pop()
            if call.used and advice.pointcut == "around":
                start = self._heads[key, "C"]
                yield start, thread, call.begun_ns, _usage(call.used, used, time_ns - call.begun_ns)
                yield start, thread, time_ns, UNUSED
            if is_whole:
                yield self._heads[key, "X"], thread, call.begun_ns, time_ns - call.begun_ns
            elif end:
                yield self._heads[key, end], thread, time_ns, _tail(advice, call)
            yield from self._flow(end_flow, key, thread, time_ns)

    def _flow(self, phase: str, key: int, thread: int, time_ns: int) -> Iterator[Event]:
        if phase and (number := self._flows.number_of(phase)) is not None:
            yield self._heads[key, phase], thread, time_ns, f', "id": {number}, "bp": "e"'


def _tail(advice: Advice, call: _Call) -> str:
    if not advice.is_async:
        return ""
    scope = f', "scope": {json.dumps(advice.scope)}' if advice.scope else ""
    return f'{scope}, "id": {call.number}'


def _usage(before: Mapping[str, float], now: Mapping[str, float], wall_ns: int) -> Usage:
    """Return what a call has used, in PerfFlowAspect's units."""
    share = 1e5 / max(wall_ns, 1)
    in_kernel = share * (now[SYSTEM_TIME] - before[SYSTEM_TIME])
    return (
        share * (now[USER_TIME] - before[USER_TIME]) + in_kernel,
        in_kernel,
        share * (now[THREAD_TIME] - before[THREAD_TIME]),
        now[PEAK_MEMORY] * KIB_KB,
    )
