"""Waits that were not flagged, found in the raw rows of a rank: calls in which it waited during an interval.

Where ranks often wait long, a wait for a delay may be nothing unusual of its function, and is not recorded.
Its rows are known for a while: in the flight recorder of its stream, or in a recorded trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chimbuko.calls.rawrows import RecordedStep, short_communicators
from chimbuko.calls.record import (
    RECORD_VERSION,
    CallRecord,
    Collective,
    Message,
    StackFrame,
    WindowCall,
    call_id,
)
from chimbuko.calls.schema import Label
from chimbuko.causes.evidence.waiting import Waits, waits_in
from chimbuko.trace.schema import NO_PEER, EventType, StreamNames

MOST_CALLS = 4
"""Of a rank and interval, those that lost most."""
LEAST_SHARE = 0.25
"""Of what a call lost: so much of its time lies in the interval."""
_FUNCTION = np.uint64(0xFFFFFFFF)
_THREAD = np.uint64(0xFFFF)
_FUNCTION_AND_THREAD = np.uint64((1 << 48) - 1)
_KIND_BITS, _THREAD_BITS = np.uint64(48), np.uint64(32)
_UNKNOWN = -1
"""As step and row of a call that was entered before the first row."""

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Place:
    """Whose rows they are."""

    program: int
    rank: int
    node: str


@dataclass(frozen=True)
class Interval:
    """What is asked for: calls that waited in it, on the clock of the rank, and lost so much."""

    begin_us: int
    end_us: int
    least_us: float


class RecordedWaits:
    """Calls of one rank in which ranks wait for each other, as far as their rows are known.

    Parameters
    ----------
    steps
        In order; none is missing but those without rows. A call is found if the steps in which it was entered
        and left are whole.
    """

    def __init__(self, place: Place, steps: Sequence[RecordedStep], names: StreamNames) -> None:
        self._place = place
        self._names = names
        self._steps = steps
        opened = steps[0].packed("open") if steps else np.empty((0, 2), np.uint64)
        events = [step.packed("events") for step in steps]
        rows = np.concatenate([opened, *events])
        self._times_us = rows[:, 0].view(np.int64)
        self._codes = rows[:, 1]
        self._firsts = np.cumsum([len(opened), *map(len, events)])
        self._entry, self._exit = (
            np.uint64(names.event_type_id(kind)) for kind in (EventType.ENTRY, EventType.EXIT)
        )
        self._begins, self._ends = self._pairs()
        self._functions = self._codes[self._begins] & _FUNCTION
        self._begin_us, self._end_us = self._times_us[self._begins], self._times_us[self._ends]
        self._runtimes_us = self._end_us - self._begin_us

    def during(self, asked: Interval) -> list[CallRecord]:
        """Records of calls that waited then, as normal ones: nobody has judged them.

        What is expected of them is the median of the other calls of their function that are known.
        """
        together_us = np.minimum(self._end_us, asked.end_us) - np.maximum(self._begin_us, asked.begin_us)
        longest = np.flatnonzero((together_us > 0) & (self._runtimes_us >= asked.least_us))
        longest = longest[np.argsort(-self._runtimes_us[longest], kind="stable")]
        found: list[CallRecord] = []
        for call in longest.tolist():
            if len(found) == MOST_CALLS:
                break
            if not self._has_place(call) or self._is_around(call, longest):
                continue
            others = (self._functions == self._functions[call]) & (together_us <= 0)
            if not others.any():
                continue
            usual_us = self._runtimes_us[others]
            lost_us = float(self._runtimes_us[call] - np.median(usual_us))
            if lost_us >= asked.least_us and together_us[call] >= LEAST_SHARE * lost_us:
                found.append(self._record(call, usual_us))
        return found

    def _pairs(self) -> tuple[Indices, Indices]:
        """ENTRY and EXIT of each call in which ranks wait."""
        waits = [timer for timer, name in self._names.timers.items() if waits_in(name) is not Waits.NOT]
        # Whatever lies behind them is none.
        is_wait = np.zeros(max(waits, default=0) + 2, np.bool_)
        is_wait[waits] = True
        rows = np.flatnonzero(is_wait.take((self._codes & _FUNCTION).view(np.int64), mode="clip"))
        keys = self._codes[rows] & _FUNCTION_AND_THREAD
        order = np.argsort(keys, kind="stable")
        rows, keys = rows[order], keys[order]
        kinds = self._codes[rows] >> _KIND_BITS
        is_pair = (keys[:-1] == keys[1:]) & (kinds[:-1] == self._entry) & (kinds[1:] == self._exit)
        return rows[:-1][is_pair], rows[1:][is_pair]

    def _has_place(self, call: int) -> bool:
        """Whether the id of a call is known: it was entered in a step that is whole."""
        at, end = self._step_at(int(self._begins[call])), self._step_at(int(self._ends[call]))
        return at >= 0 and self._steps[at].is_whole and self._steps[end].is_whole

    def _is_around(self, call: int, others: Indices) -> bool:
        """Whether the wait is that of one of these calls, inside of it."""
        begin, end, thread = self._begins[call], self._ends[call], self._thread(self._begins[call])
        inside = others[(self._begins[others] > begin) & (self._ends[others] < end)]
        return any(self._thread(self._begins[other]) == thread for other in inside.tolist())

    def _step_at(self, row: int) -> int:
        """Index of the step of a row; -1 of calls that were open before, and for no row."""
        return int(np.searchsorted(self._firsts, row, side="right")) - 1

    def _thread(self, row: int) -> int:
        return _thread_of(int(self._codes[row]))

    def _id(self, row: int) -> str:
        """Of the call that was entered there; empty where that is not known."""
        at = self._step_at(row)
        if at < 0 or not self._steps[at].is_whole:
            return ""
        return call_id(
            self._place.program, self._place.rank, self._steps[at].step, row - int(self._firsts[at])
        )

    def _stack(self, row: int) -> list[StackFrame]:
        """The call that is entered at a row, and those that are open then, innermost first."""
        at, thread = self._step_at(row), self._thread(row)
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
            (int(self._times_us[one]), int(self._codes[one]), one) for one in (row, *around[::-1].tolist())
        ]
        outer = [(time_us, code, self._entered(time_us, code, at)) for time_us, code in still[::-1]]
        return [
            StackFrame(self._id(one), self._names.timer_name(code & int(_FUNCTION)), time_us, 0, False)
            for time_us, code, one in (*inner, *outer)
        ]

    def _entered(self, time_us: int, code: int, before: int) -> int:
        """The row of an ENTRY in a step before that one, or a row without an id."""
        for at in range(before - 1, -1, -1):
            if self._steps[at].start_us <= time_us <= self._steps[at].end_us:
                first, end = int(self._firsts[at]), int(self._firsts[at + 1])
                is_it = (self._times_us[first:end] == time_us) & (self._codes[first:end] == code)
                if is_it.any():
                    return first + int(is_it.argmax())
        return _UNKNOWN

    def _record(self, call: int, usual_us: npt.NDArray[np.int64]) -> CallRecord:
        begin, end = int(self._begins[call]), int(self._ends[call])
        entry_us, exit_us = int(self._times_us[begin]), int(self._times_us[end])
        expected_us = float(np.median(usual_us))
        stack = self._stack(begin)
        own = stack[0]
        step = self._steps[self._step_at(end)]
        messages = self._messages(own.id, entry_us, exit_us, self._thread(begin))
        return CallRecord(
            id=own.id,
            version=RECORD_VERSION,
            # Whatever its stream's process says of it is said later.
            revision=0,
            is_final=True,
            label=Label.NORMAL,
            program=self._place.program,
            rank=self._place.rank,
            thread=self._thread(begin),
            node=self._place.node,
            function=own.function,
            entry_us=entry_us,
            exit_us=exit_us,
            inclusive_us=exit_us - entry_us,
            exclusive_us=exit_us - entry_us,
            step=step.step,
            step_start_us=step.start_us,
            step_end_us=step.end_us,
            score=0.0,
            severity_us=exit_us - entry_us - expected_us,
            expected_us=expected_us,
            spread_us=float(usual_us.std()),
            seen=len(usual_us),
            detector="",
            incident_id="",
            depth=len(stack) - 1,
            children=0,
            messages_count=len(messages),
            left_out=0,
            is_gpu=False,
            launch_id="",
            model_version=0,
            call_stack=[StackFrame(own.id, own.function, entry_us, exit_us, False), *stack[1:]],
            window=[
                WindowCall(
                    own.id,
                    own.function,
                    entry_us,
                    exit_us,
                    stack[1].id if stack[1:] else "",
                    len(stack) - 1,
                    False,
                )
            ],
            messages=messages,
            counters=[],
            node_state=[],
            metrics=[],
            launch_stack=[],
            collectives=self._collectives(own.id, entry_us, exit_us, self._thread(begin)),
        )

    def _messages(self, identity: str, begin_us: int, end_us: int, thread: int) -> list[Message]:
        send, receive = (self._names.event_type_id(kind) for kind in (EventType.SEND, EventType.RECV))
        rank = self._place.rank
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
            own_root = self._place.rank if root == NO_PEER else root
            found.append(Collective(short, number + 1, own_root, size_bytes, time_us, identity))
        return found

    def _within(self, part: str, begin_us: int, end_us: int, thread: int) -> list[Any]:
        """Rows of a part that lie in a call."""
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
