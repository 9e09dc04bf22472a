"""Raw rows of one rank, and the records of its calls as far as they follow from these.

Rows are known for a while: in the flight recorder of a stream, or in a recorded trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.calls.rawrows import RecordedStep, short_communicators
from chimbuko.core.calls.record import (
    RECORD_VERSION,
    CallRecord,
    Collective,
    Message,
    StackFrame,
    WindowCall,
    call_id,
    severity_us,
)
from chimbuko.core.calls.schema import Label
from chimbuko.core.traceschema import NO_PEER, EventType, StreamNames

MOST_CHILDREN = 100
"""Maximum number of calls made by a call that its record has, the first ones."""
_FUNCTION = np.uint64(0xFFFFFFFF)
_THREAD = np.uint64(0xFFFF)
_KIND_BITS, _THREAD_BITS = np.uint64(48), np.uint64(32)
_UNKNOWN = -1
"""Value that stands for step and row where a call was entered before the first row."""

Indices = npt.NDArray[np.intp]
Runtimes = npt.NDArray[np.int64]


class RankIdentity(msgspec.Struct, frozen=True):
    """Rank whose rows they are."""

    program: int
    rank: int
    node: str


class Interval(msgspec.Struct, frozen=True):
    """Interval for which calls that lost time in it are wanted, on the clock of the rank."""

    begin_us: int
    end_us: int
    least_us: float
    """Minimum excess of a wait that is wanted."""
    least_own_us: float = 0.0
    """Minimum time that a call lost by itself to be wanted; 0 if only waits are."""


class RecordedRows:
    """Rows of one rank, from the first to the last one that is known.

    Parameters
    ----------
    steps
        Steps in order, without those that have no rows. Rows behind a step that is missing, or not whole, are
        not taken for the end of what is before it.
    """

    def __init__(self, identity: RankIdentity, steps: Sequence[RecordedStep], names: StreamNames) -> None:
        self.identity = identity
        self.names = names
        self._steps = steps
        opened = steps[0].packed("open") if steps else np.empty((0, 2), np.uint64)
        events = [step.packed("events") for step in steps]
        rows = np.concatenate([opened, *events])
        self.times_us = rows[:, 0].view(np.int64)
        self._codes = rows[:, 1]
        self._firsts = np.cumsum([len(opened), *map(len, events)])
        self._entry, self._exit = (
            np.uint64(names.event_type_id(kind)) for kind in (EventType.ENTRY, EventType.EXIT)
        )
        numbers = np.array([step.step for step in steps], np.int64)
        is_whole = np.array([step.is_whole for step in steps], np.bool_)
        self._stretches = np.cumsum(~is_whole | (np.diff(numbers, prepend=numbers[:1] - 1) != 1))
        """Number of the stretch of each step: steps of one stretch follow each other."""

    @cached_property
    def functions(self) -> npt.NDArray[np.uint64]:
        """Timers of all rows, u8[n]."""
        return self._codes & _FUNCTION

    @cached_property
    def threads(self) -> npt.NDArray[np.uint64]:
        """Threads of all rows, u8[n]."""
        return self._codes >> _THREAD_BITS & _THREAD

    @cached_property
    def is_entry(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows in which a call is entered, bool[n]."""
        is_entry: npt.NDArray[np.bool_] = self._codes >> _KIND_BITS == self._entry
        return is_entry

    @cached_property
    def is_exit(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows in which a call is left, bool[n]."""
        is_exit: npt.NDArray[np.bool_] = self._codes >> _KIND_BITS == self._exit
        return is_exit

    def thread(self, row: int) -> int:
        """Return the thread of a row."""
        return _thread_of(int(self._codes[row]))

    def has_place(self, begin: int, end: int) -> bool:
        """Whether the id of a call with these rows is known, and nothing is missing between them."""
        at, last = self._step_at(begin), self._step_at(end)
        if at < 0 or not (self._steps[at].is_whole and self._steps[last].is_whole):
            return False
        return bool(self._stretches[at] == self._stretches[last])

    def id_at(self, row: int) -> str:
        """Return the id of the call that was entered in a row; empty if it is not known."""
        at = self._step_at(row)
        if at < 0 or not self._steps[at].is_whole:
            return ""
        of_step = row - int(self._firsts[at])
        return call_id(self.identity.program, self.identity.rank, self._steps[at].step, of_step)

    def wait(self, begin: int, end: int, usual_us: Runtimes) -> CallRecord:
        """Return the record of a call in which the rank waited, which made no others.

        Parameters
        ----------
        begin, end
            Rows of its ENTRY and EXIT, which have their place.
        usual_us
            Runtimes of comparable calls, i8[n], of which the median is expected.
        """
        entry_us, exit_us, thread = int(self.times_us[begin]), int(self.times_us[end]), self.thread(begin)
        record = self._record(begin, end, exit_us - entry_us, usual_us, ())
        messages = self._messages(record.id, entry_us, exit_us, thread)
        return msgspec.structs.replace(
            record,
            messages=messages,
            messages_count=len(messages),
            collectives=self._collectives(record.id, entry_us, exit_us, thread),
        )

    def loss(
        self,
        begin: int,
        end: int,
        exclusive_us: int,
        usual_us: Runtimes,
        children: Sequence[tuple[int, int]],
        until_us: int,
    ) -> CallRecord:
        """Return the record of a call in which the rank lost time by itself.

        Parameters
        ----------
        begin, end, usual_us
            The same as of a wait.
        exclusive_us
            Runtime without the calls inside it, as in ``usual_us``.
        children
            Rows of the calls that it made itself, in order.
        until_us
            Time until which collective operations that the rank entered say when it came, to whoever waited
            for it.
        """
        record = self._record(begin, end, exclusive_us, usual_us, children)
        # They are those of calls inside it, or behind it.
        entered = self._collectives("", record.entry_us, until_us, record.thread)
        return msgspec.structs.replace(record, collectives=entered)

    def _record(
        self,
        begin: int,
        end: int,
        exclusive_us: int,
        usual_us: Runtimes,
        children: Sequence[tuple[int, int]],
    ) -> CallRecord:
        """Return a record that is labelled normal, as nobody has judged it."""
        entry_us, exit_us = int(self.times_us[begin]), int(self.times_us[end])
        expected_us = float(np.median(usual_us))
        stack = self._stack(begin)
        own, depth = stack[0], len(stack) - 1
        step = self._steps[self._step_at(end)]
        around = stack[1].id if stack[1:] else ""
        return CallRecord(
            id=own.id,
            version=RECORD_VERSION,
            # Whatever its stream's process says of it is said later.
            revision=0,
            is_final=True,
            label=Label.NORMAL,
            program=self.identity.program,
            rank=self.identity.rank,
            thread=self.thread(begin),
            node=self.identity.node,
            function=own.function,
            entry_us=entry_us,
            exit_us=exit_us,
            inclusive_us=exit_us - entry_us,
            exclusive_us=exclusive_us,
            step=step.step,
            step_start_us=step.start_us,
            step_end_us=step.end_us,
            score=0.0,
            severity_us=float(severity_us(exclusive_us, expected_us)),
            expected_us=expected_us,
            spread_us=float(usual_us.std()),
            seen=len(usual_us),
            detector="",
            incident_id="",
            depth=depth,
            children=len(children),
            messages_count=0,
            left_out=0,
            is_gpu=False,
            launch_id="",
            model_version=0,
            call_stack=[StackFrame(own.id, own.function, entry_us, exit_us, False), *stack[1:]],
            window=[
                WindowCall(own.id, own.function, entry_us, exit_us, around, depth, False),
                *(self._child(own.id, depth + 1, *rows) for rows in children[:MOST_CHILDREN]),
            ],
            messages=[],
            counters=[],
            node_state=[],
            metrics=[],
            launch_stack=[],
        )

    def _child(self, parent: str, depth: int, begin: int, end: int) -> WindowCall:
        function = self.names.timer_name(int(self._codes[begin] & _FUNCTION))
        times = int(self.times_us[begin]), int(self.times_us[end])
        return WindowCall(self.id_at(begin), function, *times, parent, depth, False)

    def _step_at(self, row: int) -> int:
        """Return the index of the step of a row; -1 for calls that were open before, and for no row."""
        return int(np.searchsorted(self._firsts, row, side="right")) - 1

    def _stack(self, row: int) -> list[StackFrame]:
        """Return the call that is entered at a row, and those that are open then, innermost first."""
        at, thread = self._step_at(row), self.thread(row)
        first = int(self._firsts[at])
        codes = self._codes[first:row]
        kinds = codes >> _KIND_BITS
        is_call = (kinds == self._entry) | (kinds == self._exit)
        rows = np.flatnonzero(is_call & (codes >> _THREAD_BITS & _THREAD == thread))
        is_entry = kinds[rows] == self._entry
        depths = np.cumsum(np.where(is_entry, 1, -1))
        # Open is what was entered and never left: the depth never falls below that of its ENTRY again.
        lowest = np.minimum.accumulate(depths[::-1])[::-1]
        around = first + rows[is_entry & (lowest == depths)]
        before = [row for row in self._steps[at].packed("open").tolist() if _thread_of(row[1]) == thread]
        left = -int(depths.min(initial=0))
        still = before[: max(len(before) - left, 0)]
        inner = [
            (int(self.times_us[one]), int(self._codes[one]), one) for one in (row, *around[::-1].tolist())
        ]
        outer = [(time_us, code, self._entered(time_us, code, at)) for time_us, code in still[::-1]]
        return [
            StackFrame(self.id_at(one), self.names.timer_name(code & int(_FUNCTION)), time_us, 0, False)
            for time_us, code, one in (*inner, *outer)
        ]

    def _entered(self, time_us: int, code: int, before: int) -> int:
        """Return the row of an ENTRY in a step before that one, or a row without an id."""
        for at in range(before - 1, -1, -1):
            if self._steps[at].start_us <= time_us <= self._steps[at].end_us:
                first, end = int(self._firsts[at]), int(self._firsts[at + 1])
                is_it = (self.times_us[first:end] == time_us) & (self._codes[first:end] == code)
                if is_it.any():
                    return first + int(is_it.argmax())
        return _UNKNOWN

    def _messages(self, identity: str, begin_us: int, end_us: int, thread: int) -> list[Message]:
        send, receive = (self.names.event_type_id(kind) for kind in (EventType.SEND, EventType.RECV))
        rank = self.identity.rank
        found = []
        for time_us, partner, size_bytes, tag, code in self._within("messages", begin_us, end_us, thread):
            if code >> 48 == send:
                found.append(Message("SEND", rank, partner, tag, size_bytes, time_us, identity))
            elif code >> 48 == receive:
                found.append(Message("RECV", partner, rank, tag, size_bytes, time_us, identity))
        return found

    def _collectives(self, identity: str, begin_us: int, end_us: int, thread: int) -> list[Collective]:
        found = []
        for time_us, communicator, root, number, size_bytes, _ in self._within(
            "operations", begin_us, end_us, thread
        ):
            (short,) = short_communicators(np.array([communicator], np.uint64)).tolist()
            own_root = self.identity.rank if root == NO_PEER else root
            found.append(Collective(short, number + 1, own_root, size_bytes, time_us, identity))
        return found

    def _within(self, part: str, begin_us: int, end_us: int, thread: int) -> list[Any]:
        """Return rows of a part that lie between two times."""
        found: list[Any] = []
        for step in self._steps:
            if step.end_us >= begin_us and step.start_us <= end_us:
                rows = step.packed(part)
                is_inside = (rows[:, 0] >= begin_us) & (rows[:, 0] <= end_us)
                is_inside &= (rows[:, -1] >> _THREAD_BITS & _THREAD) == thread
                found += rows[is_inside].tolist()
        return found


def _thread_of(code: int) -> int:
    return code >> int(_THREAD_BITS) & int(_THREAD)
