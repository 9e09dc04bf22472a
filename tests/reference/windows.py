"""Slow, obvious twin of ``ad.calls.windows``: every window is cut out of the complete trace, in one go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chimbuko.ad.kernels.retained import MAX_COUNTERS
from chimbuko.core.calls.record import CounterValue, Message, call_id
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.reference.stacks import SlowCall, SlowStacks

PROGRAM = 2

Summary = tuple[Any, ...]
"""What is compared of a record."""


@dataclass
class SlowTrace:
    """The complete trace, by position of the step in it."""

    numbers: list[int] = field(default_factory=list)
    threads: dict[int, list[SlowCall]] = field(default_factory=lambda: defaultdict(list))
    """Calls in order of entry."""
    entered_at: dict[int, int] = field(default_factory=dict)
    """By ``id`` of the call."""
    over_at: dict[int, int] = field(default_factory=dict)
    messages: dict[int, list[tuple[int, Message]]] = field(default_factory=lambda: defaultdict(list))
    """By ``id`` of the call: position and message, in order."""
    counters: dict[int, list[tuple[int, CounterValue]]] = field(default_factory=lambda: defaultdict(list))
    calls: list[SlowCall] = field(default_factory=list)


class SlowWindows:
    """All records of a stream, made after its end.

    ``is_selected`` and ``is_anomaly`` choose calls by step and row of their ENTRY.
    """

    def __init__(
        self,
        rank: int,
        steps: list[TraceStep],
        names: StreamNames,
        config: AnalysisConfig,
        is_selected: Callable[[SlowCall], bool],
        is_anomaly: Callable[[SlowCall], bool],
    ) -> None:
        self._rank = rank
        self._names = names
        self._config = config
        self._is_anomaly = is_anomaly
        self._trace = SlowTrace()
        stacks = SlowStacks(rank)
        for position, step in enumerate(steps):
            stacks.build(step, names)
            self._read(position, step, stacks)
        self._selected = [call for call in self._trace.calls if call.exit and is_selected(call)]

    def records(self) -> Iterator[Summary]:
        for call in self._selected:
            first = self._trace.over_at[id(call)]
            last = self._final_position(call)
            if last == first:
                yield first, 1, True, *self._content(call, first)
            else:
                yield first, 1, False, *self._content(call, first)
                yield last, 2, True, *self._content(call, last)

    def _read(self, position: int, step: TraceStep, stacks: SlowStacks) -> None:
        trace = self._trace
        trace.numbers.append(step.step)
        for call in stacks.calls[stacks.carried :]:
            trace.calls.append(call)
            trace.threads[call.thread].append(call)
            trace.entered_at[id(call)] = position
        for call in stacks.calls:
            if call.is_over:
                trace.over_at[id(call)] = position
        for message, row in zip(stacks.messages, step.comms.tolist(), strict=True):
            if message.call is not None:
                trace.messages[id(message.call)].append((position, self._message(row, message.call)))
        for value, row in zip(stacks.counters, step.counters.tolist(), strict=True):
            if value.call is not None:
                trace.counters[id(value.call)].append((position, self._counter(row, value.call)))

    def _after(self, call: SlowCall, position: int) -> list[SlowCall]:
        """Up to k calls entered after it on its thread, as far as known at ``position``."""
        later = self._trace.threads[call.thread]
        later = later[later.index(call) + 1 :][: self._config.window_calls]
        return [other for other in later if self._trace.entered_at[id(other)] <= position]

    def _final_position(self, call: SlowCall) -> int:
        """When the window is full, or too old, or the stream has ended."""
        first = self._trace.over_at[id(call)]
        last_number = self._trace.numbers[first] + self._config.final_after_steps
        for position in range(first, len(self._trace.numbers)):
            after = self._after(call, position)
            is_full = len(after) == self._config.window_calls
            if is_full and all(self._is_over(other, position) for other in after):
                return position
            if position > first and self._trace.numbers[position] >= last_number:
                return position
        return len(self._trace.numbers)

    def _is_over(self, call: SlowCall, position: int) -> bool:
        return self._trace.over_at.get(id(call), position + 1) <= position

    def _content(self, call: SlowCall, position: int) -> Summary:
        on_thread = self._trace.threads[call.thread]
        at = on_thread.index(call)
        before = on_thread[max(at - self._config.window_calls, 0) : at]
        members = [*before, call, *self._after(call, position)]
        messages = self._known(members, self._trace.messages, position)
        counters = self._known(members, self._trace.counters, position)
        most_messages, most_counters = self._config.max_messages, self._config.max_counters
        left_out = max(len(messages) - most_messages, 0) + max(len(counters) - most_counters, 0)
        stack = [call]
        while stack[-1].parent is not None:
            stack.append(stack[-1].parent)
        return (
            self._id(call),
            [self._frame(member, position) for member in stack],
            [
                (
                    *self._frame(member, position),
                    self._id(member.parent) if member.parent else "",
                    member.depth,
                )
                for member in members
            ],
            messages[:most_messages],
            counters[:most_counters],
            left_out,
        )

    def _known(
        self, members: list[SlowCall], points: dict[int, list[tuple[int, Any]]], position: int
    ) -> list[Any]:
        return [point for member in members for at, point in points[id(member)] if at <= position]

    def _frame(self, call: SlowCall, position: int) -> tuple[str, str, int, int, bool]:
        is_over = self._is_over(call, position)
        function = self._names.timers.get(call.function, f"timer {call.function} (name not received)")
        is_anomaly = is_over and call.exit > 0 and self._is_anomaly(call)
        return self._id(call), function, call.entry, call.exit if is_over else 0, is_anomaly

    def _id(self, call: SlowCall) -> str:
        return call_id(PROGRAM, self._rank, call.step, call.row)

    def _message(self, row: list[int], call: SlowCall) -> Message:
        is_send = row[3] == 2
        ends = (self._rank, row[5]) if is_send else (row[5], self._rank)
        return Message("SEND" if is_send else "RECV", *ends, row[4], row[6], row[7], self._id(call))

    def _counter(self, row: list[int], call: SlowCall) -> CounterValue:
        name = self._names.counters.get(row[3], f"counter {row[3]} (name not received)")
        if row[3] >= MAX_COUNTERS:
            name = "counter with an absurd number"
        return CounterValue(name, row[4], row[5], self._id(call))
