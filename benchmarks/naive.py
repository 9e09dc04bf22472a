"""The same analysis as straightforward Python: what the compiled one is compared with.

Reads steps in memory, rebuilds stacks, attaches messages and counters, keeps moments, flags calls
outside mean ± α·σ of their exclusive runtime, and keeps the k neighbours of each as JSON.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from chimbuko.core.traceschema import EventType, StreamNames, TraceStep


@dataclass
class Call:
    """One call."""

    id: str
    function: str
    entry_us: int
    parent: Call | None
    exit_us: int = 0
    child_us: int = 0
    messages: list[list[int]] = field(default_factory=list)
    counters: list[list[int]] = field(default_factory=list)

    @property
    def exclusive_us(self) -> int:
        """Time outside of its children."""
        return self.exit_us - self.entry_us - self.child_us

    def described(self) -> dict[str, Any]:
        """What a record says of it."""
        return {
            "id": self.id,
            "function": self.function,
            "entry_us": self.entry_us,
            "exit_us": self.exit_us,
            "parent": self.parent.id if self.parent else "",
            "messages": self.messages,
            "counters": self.counters,
        }


class RunningMoments:
    """Count, mean and sums of powers two to four of the deviation from it (Pébay, SAND2008-6212)."""

    def __init__(self) -> None:
        self.n = 0
        self.mean = self.m2 = self.m3 = self.m4 = 0.0

    def add(self, x: float) -> None:
        """Add one value."""
        before = self.n
        self.n = n = before + 1
        delta = x - self.mean
        delta_n = delta / n
        term = delta * delta_n * before
        self.mean += delta_n
        self.m4 += term * delta_n**2 * (n * n - 3 * n + 3) + 6 * delta_n**2 * self.m2 - 4 * delta_n * self.m3
        self.m3 += term * delta_n * (n - 2) - 3 * delta_n * self.m2
        self.m2 += term

    def is_outside(self, x: float, alpha: float) -> bool:
        """Whether ``x`` lies outside mean ± alpha·σ."""
        return self.n > 1 and abs(x - self.mean) > alpha * math.sqrt(self.m2 / (self.n - 1))


class NaiveAnalysis:
    """Analyses one stream; the rows of its threads are in one order of time."""

    def __init__(self, names: StreamNames, alpha: float = 6.0, window_calls: int = 5) -> None:
        self._names = names
        self._alpha = alpha
        self._window_calls = window_calls
        self._stacks: defaultdict[int, list[Call]] = defaultdict(list)
        self._statistics: dict[str, tuple[RunningMoments, RunningMoments]] = {}

    def analyse(self, step: TraceStep) -> dict[str, str]:
        """Records of the abnormal calls of one step, as JSON by id."""
        entered, completed = self._rebuild(step)
        for call in completed:
            exclusive, inclusive = self._statistics.setdefault(
                call.function, (RunningMoments(), RunningMoments())
            )
            exclusive.add(call.exclusive_us)
            inclusive.add(call.exit_us - call.entry_us)
        position = {call.id: at for at, call in enumerate(entered)}
        return {
            call.id: self._record(call, entered, position.get(call.id, 0))
            for call in completed
            if self._statistics[call.function][0].is_outside(call.exclusive_us, self._alpha)
        }

    def _rebuild(self, step: TraceStep) -> tuple[list[Call], list[Call]]:
        stacks = self._stacks
        entered: list[Call] = []
        completed: list[Call] = []
        comms, counters = step.comms.tolist(), step.counters.tolist()
        next_comm = next_counter = 0
        for row, (_, _, thread, event_type, timer, time) in enumerate(step.events.tolist()):
            while next_comm < len(comms) and comms[next_comm][7] < time:
                if stack := stacks[comms[next_comm][2]]:
                    stack[-1].messages.append(comms[next_comm])
                next_comm += 1
            while next_counter < len(counters) and counters[next_counter][5] < time:
                if stack := stacks[counters[next_counter][2]]:
                    stack[-1].counters.append(counters[next_counter])
                next_counter += 1
            stack = stacks[thread]
            if event_type == EventType.ENTRY:
                parent = stack[-1] if stack else None
                call = Call(f"0:0:{step.step}:{row}", self._names.timers[timer], time, parent)
                stack.append(call)
                entered.append(call)
            elif stack:
                call = stack.pop()
                call.exit_us = time
                if call.parent is not None:
                    call.parent.child_us += time - call.entry_us
                completed.append(call)
        return entered, completed

    def _record(self, call: Call, entered: list[Call], at: int) -> str:
        ancestors = []
        parent = call.parent
        while parent is not None:
            ancestors.append(parent.described())
            parent = parent.parent
        k = self._window_calls
        window = [neighbour.described() for neighbour in entered[max(at - k, 0) : at + k + 1]]
        return json.dumps({"call": call.described(), "call_stack": ancestors, "window": window})
