"""Made-up run: streams of a program that nobody ran, drawn from a description, with known delays.

Each rank goes through the same calls in each step, in their order. Ranks wait for each other where the
description says so, so that a delay of one shows in others, too.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
import numpy as np

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import Float64Array, Int64Array, UInt64Array
from chimbuko.core.errors import ConfigError
from chimbuko.core.pauses import Pause
from chimbuko.core.traceschema import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    EVENT_COLUMNS,
    EVENT_RANK,
    EVENT_THREAD,
    NO_PEER,
    OPERATION_COLUMNS,
    ROOT_TIMER_NAME,
    EventType,
    Operation,
    StreamNames,
    TraceStep,
)

START_US = 1_700_000_000_000_000
"""Time at which a made-up run begins where nothing else is said, in µs since the Unix epoch."""
PERIOD_US = 1_000_000
"""Period of TAU's steps, in µs."""


class StreamTimeline:
    """Calls, messages and counters of one rank, by times in µs since the run began.

    The calls of each thread are given in its order.

    Parameters
    ----------
    late_steps
        By how many steps the rows of a thread come later than those of others; with the last step at latest.
    start_us
        Time at which the run begins, in µs since the Unix epoch.
    """

    def __init__(
        self,
        rank: int,
        executable: str,
        late_steps: Mapping[int, int] = MappingProxyType({}),
        start_us: int = START_US,
    ) -> None:
        self.rank = rank
        self.names = StreamNames(
            counters={0: "TIME"},
            event_types={int(kind): kind.name for kind in EventType},
            program=executable,
        )
        self._start_us = start_us
        self._late_steps = late_steps
        self._timers: dict[str, int] = {}
        self._counters: dict[str, int] = {"TIME": 0}
        self._events: list[tuple[int, ...]] = []
        self._comms: list[tuple[int, ...]] = []
        self._values: list[tuple[int, ...]] = []
        self._operations: list[tuple[int, ...]] = []

    def enter(self, thread: int, function: str, time_us: float) -> int:
        """Write down the ENTRY of a call; returns the number of its row."""
        return self._event(thread, EventType.ENTRY, function, time_us)

    def leave(self, thread: int, function: str, time_us: float) -> None:
        """Write down the EXIT of a call."""
        self._event(thread, EventType.EXIT, function, time_us)

    def send(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """Write down a message sent."""
        self._message(EventType.SEND, thread, partner, size_bytes, time_us)

    def receive(self, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        """Write down a message received."""
        self._message(EventType.RECV, thread, partner, size_bytes, time_us)

    def collective(self, thread: int, number: int, size_bytes: int, time_us: float) -> None:
        """Write down that a collective operation of all ranks was entered; each has a number, from 0 on."""
        kind = int(Operation.COLLECTIVE)
        row = (thread, kind, 0, NO_PEER, number, size_bytes, 0, self._start_us + round(time_us))
        self._operations.append(row)

    def counter(self, thread: int, name: str, value: int, time_us: float) -> None:
        """Write down a counter's value."""
        number = self._counters.setdefault(name, len(self._counters))
        self.names.counters[number] = name
        self._values.append((thread, number, value, self._start_us + round(time_us)))

    def steps(self, period_us: int = PERIOD_US) -> tuple[list[TraceStep], list[int]]:
        """Return all steps, and where each event that was written down stands in its own."""
        events = self._array(self._events, EVENT_COLUMNS)
        rows = [
            events,
            *(
                self._array(sorted(own, key=itemgetter(-1)), columns)
                for own, columns in (
                    (self._comms, COMM_COLUMNS),
                    (self._values, COUNTER_COLUMNS),
                    (self._operations, OPERATION_COLUMNS),
                )
            ),
        ]
        numbers = [self._step_numbers(own, period_us) for own in rows]
        # As TAU writes them: step by step, within a step thread by thread.
        order = np.lexsort((np.arange(len(events)), events[:, EVENT_THREAD], numbers[0]))
        rows[0], numbers[0] = events[order], numbers[0][order]
        steps = []
        for step, number in enumerate(np.unique(np.concatenate(numbers))):
            of_step = [own[of == number] for own, of in zip(rows, numbers, strict=True)]
            events_of, comms_of, values_of, operations_of = of_step
            steps.append(TraceStep(step, events_of, comms_of, values_of, operations=operations_of))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return steps, place.tolist()

    def _event(self, thread: int, kind: EventType, function: str, time_us: float) -> int:
        timer = self._timers.setdefault(function, len(self._timers))
        self.names.timers[timer] = function
        self._events.append((thread, int(kind), timer, self._start_us + round(time_us)))
        return len(self._events) - 1

    def _message(self, kind: EventType, thread: int, partner: int, size_bytes: int, time_us: float) -> None:
        time = self._start_us + round(time_us)
        self._comms.append((thread, int(kind), 0, partner, size_bytes, time))

    def _step_numbers(self, rows: UInt64Array, period_us: int) -> Int64Array:
        """Return with which step each row comes, in periods since the run began."""
        numbers = (rows[:, -1].astype(np.int64) - self._start_us) // period_us
        late = [self._late_steps.get(thread, 0) for thread in rows[:, EVENT_THREAD].tolist()]
        last = (self._events[-1][-1] - self._start_us) // period_us
        return np.minimum(numbers + np.array(late, np.int64), np.maximum(numbers, last))

    def _array(self, rows: list[tuple[int, ...]], columns: int) -> UInt64Array:
        """Return rows with program and rank before them."""
        array = np.zeros((len(rows), columns), np.uint64)
        array[:, EVENT_RANK] = self.rank
        if rows:
            array[:, EVENT_THREAD:] = np.array(rows, np.uint64)
        return array


GAP_US = 5.0
"""Time of a caller between two calls, in µs."""
MOST_CALLS = 20_000_000
"""Most calls of a run: they are made in memory, and take some 300 bytes each."""
TRUTH_FILE = "truth.txt"
"""File of the delays: ``rank step function start_us end_us ms cause`` in a line, by time."""

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Kind(StrEnum):
    """Effects of a call beside the time that it takes."""

    OWN = "own"
    """Call that waits for nobody."""
    NEIGHBOURS = "neighbours"
    """Call that sends to the next rank of a ring, and receives from the one before."""
    COLLECTIVE = "collective"
    """Call in which all ranks wait for the last one."""


class DelayCause(StrEnum):
    """Cause of a delay, by its name in the analysis."""

    OWN_CODE = "own code"
    COLLECTION = "garbage collection"
    MORE_BYTES = "more bytes"


class CallTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``[[calls]]``: what each rank calls in each step."""

    function: _Name
    ms: _Positive | Annotated[list[_Positive], msgspec.Meta(min_length=1)]
    """Median of the time in the function itself; of several the call takes one by chance."""
    spread: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    """Standard deviation of the logarithm of that time."""
    calls: _Count = 1
    """Number of calls, one after the other."""
    inside: str = ""
    """Function that calls it, which stands before it; empty for the program's loop."""
    kind: Kind = Kind.OWN
    bytes: Annotated[int, msgspec.Meta(ge=0)] = 65_536
    """Size of each message."""


class DelayTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``[[delays]]``: calls that take longer than they should."""

    function: _Name
    ms: _Positive
    """Time that is added."""
    ranks: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    """Ranks of which one, by chance, is delayed each time; empty for all."""
    steps: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    every: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Number of steps from one delay to the next; 0 for none of this kind."""
    share: _Share = 0.0
    """Probability of a delay in each step."""
    cause: DelayCause = DelayCause.OWN_CODE


class MadeUpRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Description of a made-up run."""

    calls: Annotated[list[CallTable], msgspec.Meta(min_length=1)]
    delays: list[DelayTable] = []
    program: Annotated[str, msgspec.Meta(pattern=r"^[\w.]+$")] = "made_up"
    ranks: _Count = 4
    steps: _Count = 200
    seed: int = 1
    start: datetime | None = None
    """Time at which it begins; None for one that is always the same."""
    period_ms: _Positive = PERIOD_US / 1e3
    """Time from one step of the trace to the next."""


class Delay(msgspec.Struct, frozen=True):
    """One delay that was made."""

    rank: int
    step: int
    function: str
    start_us: int
    end_us: int
    cause: DelayCause

    def __str__(self) -> str:
        name = self.function.split("(")[0].split(" [")[0].replace(" ", "_")
        ms = (self.end_us - self.start_us) / 1e3
        return f"{self.rank} {self.step} {name} {self.start_us} {self.end_us} {ms:.0f} {self.cause}"


class MadeUpTrace:
    """Streams and delays of a made-up run; the same for the same description.

    Raises
    ------
    ConfigError
        The description contradicts itself.
    """

    def __init__(self, run: MadeUpRun) -> None:
        self._run = run
        self._children = _children(run)
        _check(run)
        self.start_us = START_US if run.start is None else round(run.start.timestamp() * 1e6)
        self.timelines = [
            StreamTimeline(rank, run.program, start_us=self.start_us) for rank in range(run.ranks)
        ]
        self.delays: list[Delay] = []
        self._random = np.random.default_rng(run.seed)
        self._collectives = 0
        self._step = 0
        self._due: dict[str, tuple[DelayCause, Float64Array]] = {}
        """Delays of this step that were not made yet, by function: cause, and µs of each rank."""
        self._work: Mapping[Kind, Callable[[CallTable, Float64Array, Float64Array], Float64Array]] = {
            Kind.OWN: self._own,
            Kind.NEIGHBOURS: self._neighbours if run.ranks > 1 else self._own,
            Kind.COLLECTIVE: self._collective,
        }
        self._play()

    def write(self, folder: Path) -> list[Path]:
        """Write a stream for each rank, and the truth; returns the paths of the streams.

        Raises
        ------
        ChimbukoError
            They cannot be written.
        """
        paths = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for timeline in self.timelines:
                path = folder / f"tau-metrics-{self._run.program}-{timeline.rank}.bp"
                if path.exists():
                    raise ConfigError(f"{path}: it is there already; give another folder")
                paths.append(path)
            for timeline, path in zip(self.timelines, paths, strict=True):
                steps, _ = timeline.steps(round(1e3 * self._run.period_ms))
                with StreamWriter(path) as writer:
                    for step in steps:
                        arrays = (step.events, step.comms, step.counters)
                        writer.write_step(*arrays, timeline.names, operations=step.operations)
            lines = map(str, sorted(self.delays, key=lambda delay: delay.start_us))
            (folder / TRUTH_FILE).write_text("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise ConfigError(f"{folder}: it cannot be written ({error.strerror})") from error
        return paths

    def _play(self) -> None:
        clock_us = np.zeros(self._run.ranks)
        for timeline in self.timelines:
            timeline.enter(0, ROOT_TIMER_NAME, 0.0)
        for step in range(self._run.steps):
            self._step = step
            self._draw_delays()
            for call in self._children[""]:
                clock_us = self._calls(call, clock_us)
        for timeline, end_us in zip(self.timelines, clock_us.tolist(), strict=True):
            timeline.leave(0, ROOT_TIMER_NAME, end_us + GAP_US)

    def _draw_delays(self) -> None:
        self._due = {}
        for delay in self._run.delays:
            is_due = self._step in delay.steps
            is_due |= bool(delay.every) and self._step > 0 and self._step % delay.every == 0
            if (is_due or self._random.random() < delay.share) and delay.function not in self._due:
                added_us = np.zeros(self._run.ranks)
                added_us[self._random.choice(delay.ranks or range(self._run.ranks))] = 1e3 * delay.ms
                self._due[delay.function] = (delay.cause, added_us)

    def _calls(self, call: CallTable, clock_us: Float64Array) -> Float64Array:
        for _ in range(call.calls):
            start_us = clock_us + GAP_US
            for timeline, at_us in zip(self.timelines, start_us.tolist(), strict=True):
                timeline.enter(0, call.function, at_us)
            medians_us = 1e3 * self._random.choice(np.atleast_1d(call.ms), self._run.ranks)
            own_us = medians_us * np.exp(call.spread * self._random.standard_normal(self._run.ranks))
            clock_us = self._work[call.kind](call, start_us, own_us)
            for timeline, at_us in zip(self.timelines, clock_us.tolist(), strict=True):
                timeline.leave(0, call.function, at_us)
        return clock_us

    def _own(self, call: CallTable, start_us: Float64Array, own_us: Float64Array) -> Float64Array:
        """Half of the own time passes before the calls inside, half after them."""
        clock_us = start_us + own_us / 2
        for child in self._children.get(call.function, ()):
            clock_us = self._calls(child, clock_us)
        clock_us = clock_us + own_us / 2
        return clock_us + self._added(call, clock_us)

    def _neighbours(self, call: CallTable, start_us: Float64Array, own_us: Float64Array) -> Float64Array:
        sizes = np.full(self._run.ranks, float(call.bytes))
        cause = self._due[call.function][0] if call.function in self._due else None
        added_us = self._added(call, start_us)
        if cause is DelayCause.MORE_BYTES:
            sizes *= 1.0 + added_us / own_us
        sent_us = start_us + own_us + added_us
        end_us: Float64Array = np.maximum(sent_us, np.roll(sent_us, 1))
        for rank, timeline in enumerate(self.timelines):
            left, right = (rank - 1) % self._run.ranks, (rank + 1) % self._run.ranks
            timeline.send(0, right, int(sizes[rank]), start_us[rank])
            timeline.receive(0, left, int(sizes[left]), end_us[rank])
        return end_us

    def _collective(self, call: CallTable, start_us: Float64Array, own_us: Float64Array) -> Float64Array:
        for timeline, at_us in zip(self.timelines, start_us.tolist(), strict=True):
            timeline.collective(0, self._collectives, call.bytes, at_us)
        self._collectives += 1
        together_us = start_us.max() + float(own_us.max()) + float(self._added(call, start_us).max())
        return np.full(self._run.ranks, together_us)

    def _added(self, call: CallTable, from_us: Float64Array) -> Float64Array:
        """Return what delays add to the first call of the step, which is then noted as made."""
        if call.function not in self._due:
            return np.zeros(self._run.ranks)
        cause, added_us = self._due.pop(call.function)
        for rank in np.flatnonzero(added_us).tolist():
            begin_us, end_us = float(from_us[rank]), float(from_us[rank] + added_us[rank])
            if cause is DelayCause.COLLECTION:
                name = Pause.COLLECTION.counter("generation 2")
                self.timelines[rank].counter(0, name, int(added_us[rank]), end_us)
            times = (self.start_us + round(begin_us), self.start_us + round(end_us))
            self.delays.append(Delay(rank, self._step, call.function, *times, cause))
        return added_us


def read_description(path: Path) -> MadeUpRun:
    """Read a description in TOML, or in JSON where the file is named so.

    Raises
    ------
    ConfigError
        It cannot be read, or is none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: it cannot be read ({getattr(error, 'strerror', error)})") from error
    try:
        table: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return msgspec.convert(table, MadeUpRun)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: no description of a run ({error})") from error


def _children(run: MadeUpRun) -> dict[str, list[CallTable]]:
    """Return the calls by the function that calls them."""
    children: dict[str, list[CallTable]] = {"": []}
    for call in run.calls:
        children.setdefault(call.inside, []).append(call)
    return children


def _check(run: MadeUpRun) -> None:
    """See that the description does not contradict itself.

    Raises
    ------
    ConfigError
        It does.
    """
    seen: dict[str, CallTable] = {}
    total, times = 0, {"": run.ranks * run.steps}
    for call in run.calls:
        if call.function in seen:
            raise ConfigError(f"'{call.function}' stands twice in [[calls]]; give it 'calls'")
        if call.inside and (call.inside not in seen or seen[call.inside].kind is not Kind.OWN):
            raise ConfigError(
                f"'{call.function}' is inside '{call.inside}', which is no call of kind 'own' before it"
            )
        seen[call.function] = call
        times[call.function] = times[call.inside] * call.calls
        total += times[call.function]
    if total > MOST_CALLS:
        raise ConfigError(f"{total:,} calls are too many ({MOST_CALLS:,}); give fewer ranks, steps or calls")
    for delay in run.delays:
        if delay.function not in seen:
            raise ConfigError(f"a delay of '{delay.function}', which is not in [[calls]]")
        if any(rank >= run.ranks for rank in delay.ranks):
            raise ConfigError(f"a delay of '{delay.function}' is on a rank that is none of {run.ranks}")
        has_messages = seen[delay.function].kind is Kind.NEIGHBOURS
        if delay.cause is DelayCause.MORE_BYTES and not has_messages:
            raise ConfigError(f"'{delay.function}' moves no bytes; give it kind = 'neighbours'")
