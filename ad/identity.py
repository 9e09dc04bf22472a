"""One analysed step as windows see it: neighbours, ancestors, messages, each worked out when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.kernels.judge import group, mark_surroundings
from chimbuko.ad.kernels.stack import LOST, NONE
from chimbuko.ad.stacks import CallStacks
from chimbuko.config import AnalysisConfig
from chimbuko.records import CounterValue, Message, call_id
from chimbuko.trace.schema import CounterColumn, EventType, StreamNames, TraceStep


@dataclass(frozen=True)
class StreamIdentity:
    """Whose stream it is; part of every record."""

    program: int
    rank: int
    node: str


class Neighbour(msgspec.Struct, gc=False):
    """One call as a member of windows, kept up to date while it is open."""

    id: str
    parent_id: str
    function: str
    entry_us: int
    depth: int
    exit_us: int = 0
    is_anomaly: bool = False
    is_lost: bool = False
    messages: list[Message] = []
    counters: list[CounterValue] = []
    left_out: int = 0

    @property
    def is_complete(self) -> bool:
        """Nothing more will be learned of it."""
        return self.exit_us > 0 or self.is_lost


class Groups:
    """Indices of an array of keys, by key, in order; negative keys are left out."""

    def __init__(self, keys: npt.NDArray[np.int32], count: int) -> None:
        self.order = np.empty(len(keys), np.int32)
        self.starts = np.empty(count + 1, np.int32)
        group(keys, self.order, self.starts)

    def __getitem__(self, key: int) -> npt.NDArray[np.int32]:
        return self.order[self.starts.item(key) : self.starts.item(key + 1)]

    def lists(self, keys: npt.NDArray[np.int64]) -> list[list[int]]:
        """Indices of many keys."""
        bounds = zip(self.starts[keys].tolist(), self.starts[keys + 1].tolist(), strict=True)
        return [self.order[start:end].tolist() if start < end else [] for start, end in bounds]


class StepView:
    """What windows need to know of one step.

    Parameters
    ----------
    anomalies
        Rows of the call table that were flagged in this step.
    interval_us
        Start and end of the step.
    """

    def __init__(
        self,
        step: TraceStep,
        names: StreamNames,
        stacks: CallStacks,
        anomalies: set[int],
        interval_us: tuple[int, int],
        identity: StreamIdentity,
        config: AnalysisConfig,
    ) -> None:
        self.step = step
        self.stacks = stacks
        self.start_us, self.end_us = interval_us
        self._anomalies = anomalies
        self._names = names
        self._identity = identity
        self._config = config
        self._send = names.event_type_id(EventType.SEND)
        self._made: dict[int, Neighbour] = {}
        self._ids: dict[int, str] = {NONE: ""}
        entered = stacks.calls.thread[stacks.carried : stacks.count]
        self._entered = Groups(entered, stacks.thread_count)

    def id(self, row: int) -> str:
        """Id of the call in a row of the call table; empty for the row ``NONE``."""
        made = self._ids.get(row)
        if made is None:
            call = self.stacks.call(row)
            made = self._ids[row] = call_id(self._identity.program, self._identity.rank, call.step, call.row)
        return made

    def prepare(self, rows: list[int]) -> None:
        """Make the surroundings of these calls in one go, which takes half the time."""
        wanted = np.zeros(self.stacks.count, np.uint8)
        mark_surroundings(
            self.stacks.calls,
            np.array(rows, np.int32),
            self.stacks.carried,
            self._entered.order,
            self._entered.starts,
            self._config.window_calls,
            wanted,
        )
        self._make(np.flatnonzero(wanted))

    def neighbour(self, row: int) -> Neighbour:
        """The call in a row of the call table; the same object each time."""
        if row not in self._made:
            self._make(np.array([row]))
        return self._made[row]

    def update(self, neighbour: Neighbour, row: int) -> None:
        """Bring a call that was open up to date, and use this object for it from now on."""
        call = self.stacks.call(row)
        self._made[row] = neighbour
        neighbour.exit_us = call.exit
        neighbour.is_anomaly = row in self._anomalies
        neighbour.is_lost = bool(call.doubts & LOST)
        self._add_points(neighbour, self._messages[row].tolist(), self._counters[row].tolist())

    def ancestors(self, row: int) -> Iterator[int]:
        """Rows of the calls around it, innermost first."""
        parent = self.stacks.call(row).parent
        while parent != NONE:
            yield parent
            parent = self.stacks.call(parent).parent

    def open_rows(self) -> Iterator[int]:
        """Rows of all calls that are still open at the end of the step."""
        for top in self.stacks.threads.top[: self.stacks.thread_count]:
            if top != NONE:
                yield int(top)
                yield from self.ancestors(int(top))

    def active_threads(self) -> Iterator[int]:
        """Threads on which a call was entered in this step."""
        return (number for number in range(self.stacks.thread_count) if self.entered(number))

    def thread_id(self, thread: int) -> int:
        """TAU's id of a thread."""
        return int(self.stacks.threads.id[thread])

    def entered(self, thread: int) -> int:
        """How many calls were entered on the thread in this step."""
        return len(self._entered[thread])

    def position(self, row: int) -> int:
        """Which of the calls entered on its thread in this step it is, counted from 0."""
        entered = self._entered[self.stacks.call(row).thread]
        # A key of another type than the array's would make NumPy convert the whole array.
        return int(entered.searchsorted(np.int32(row - self.stacks.carried)))

    def before(self, thread: int, position: int, most: int, recent: list[Neighbour]) -> list[Neighbour]:
        """The last ``most`` calls entered on the thread before ``position``.

        ``recent`` are those of earlier steps.
        """
        here = self._neighbours(self._entered[thread][max(position - most, 0) : position])
        missing = most - len(here)
        return recent[max(len(recent) - missing, 0) :] + here if missing > 0 else here

    def after(self, thread: int, position: int, most: int) -> list[Neighbour]:
        """The first ``most`` calls entered on the thread in this step from ``position`` on."""
        return self._neighbours(self._entered[thread][position : position + max(most, 0)])

    def watched(self) -> Iterator[CounterValue]:
        """Values of watched counters, in order of time."""
        watched = [
            number
            for number, name in self._names.counters.items()
            if name.startswith(self._config.watched_counters)
        ]
        if watched and len(self.step.counters):
            rows = np.flatnonzero(np.isin(self.step.counters[:, CounterColumn.COUNTER], watched))
            yield from (self._counter_value(int(row), "") for row in rows)

    def _neighbours(self, entered: npt.NDArray[np.int32]) -> list[Neighbour]:
        carried = self.stacks.carried
        return [self.neighbour(carried + at) for at in entered.tolist()]

    def _make(self, rows: npt.NDArray[np.int64]) -> None:
        program, rank = self._identity.program, self._identity.rank
        calls = zip(
            rows.tolist(),
            self.stacks.calls[rows].tolist(),
            self._messages.lists(rows),
            self._counters.lists(rows),
            strict=True,
        )
        for row, call, messages, counters in calls:
            if row in self._made:
                continue
            entry, end, _, timer, _, parent, depth, _, _, step, place, doubts = call
            made = self._made[row] = Neighbour(
                call_id(program, rank, step, place),
                self.id(parent),
                self._names.timers.get(timer) or f"timer {timer} (name not received)",
                entry,
                depth,
                end,
                row in self._anomalies,
                doubts & LOST != 0,
            )
            self._ids[row] = made.id
            if messages or counters:
                self._add_points(made, messages, counters)

    @cached_property
    def _messages(self) -> Groups:
        return Groups(self.stacks.message_calls, self.stacks.count)

    @cached_property
    def _counters(self) -> Groups:
        return Groups(self.stacks.counter_calls, self.stacks.count)

    def _add_points(self, neighbour: Neighbour, messages: list[int], counters: list[int]) -> None:
        room = self._config.max_messages - len(neighbour.messages)
        neighbour.messages += [self._message(at, neighbour.id) for at in messages[:room]]
        neighbour.left_out += max(len(messages) - room, 0)
        room = self._config.max_counters - len(neighbour.counters)
        neighbour.counters += [self._counter_value(at, neighbour.id) for at in counters[:room]]
        neighbour.left_out += max(len(counters) - room, 0)

    def _message(self, at: int, identity: str) -> Message:
        _, _, _, event_type, tag, partner, size_bytes, time_us = self.step.comms[at].tolist()
        is_send = event_type == self._send
        rank = self._identity.rank
        return Message(
            kind=EventType.SEND.name if is_send else EventType.RECV.name,
            source=rank if is_send else partner,
            destination=partner if is_send else rank,
            tag=tag,
            size_bytes=size_bytes,
            time_us=time_us,
            call_id=identity,
        )

    def _counter_value(self, at: int, identity: str) -> CounterValue:
        _, _, _, number, value, time_us = self.step.counters[at].tolist()
        name = self._names.counters.get(number) or f"counter {number} (name not received)"
        return CounterValue(name, value, time_us, identity)
