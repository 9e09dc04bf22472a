"""Slow, obvious twin of what the C++ Chimbuko flags with SSTD, one rank and its parameter server.

Written from its description: a model of exclusive runtimes for each function, never for a call path; the
calls of a step enter the model, and are then labelled by it; the first call of a function on a thread is left
out; a call is an outlier beyond ``mean ± sigma * standard deviation``, with the sample's standard deviation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from chimbuko.core.traceschema import EventType, StreamNames, TraceStep

Flagged = tuple[int, str, int]
"""Thread, function, time of entry in µs."""


@dataclass
class _Model:
    """Exact sums: no rounding that another order of addition would do otherwise."""

    n: int = 0
    sum_us: int = 0
    sum_of_squares: int = 0

    def add(self, runtime_us: int) -> None:
        self.n += 1
        self.sum_us += runtime_us
        self.sum_of_squares += runtime_us**2

    def is_outlier(self, runtime_us: int, sigma: int) -> bool:
        if self.n < 2:
            return False
        mean = Fraction(self.sum_us, self.n)
        variance = (self.sum_of_squares - self.n * mean**2) / (self.n - 1)
        return (runtime_us - mean) ** 2 > sigma**2 * variance


@dataclass
class _Open:
    timer: int
    entry_us: int
    children_us: int = 0


@dataclass
class CppSstd:
    """Labels the calls of one rank."""

    names: StreamNames
    sigma: int = 6
    _models: dict[str, _Model] = field(default_factory=lambda: defaultdict(_Model))
    _stacks: dict[int, list[_Open]] = field(default_factory=lambda: defaultdict(list))
    _met: set[tuple[int, int]] = field(default_factory=set)

    def flagged(self, steps: Iterable[TraceStep]) -> set[Flagged]:
        """The outliers of all steps."""
        found: set[Flagged] = set()
        for step in steps:
            calls = list(self._closed_in(step))
            for _, function, _, runtime_us in calls:
                self._models[function].add(runtime_us)
            found |= {
                (thread, function, entry_us)
                for thread, function, entry_us, runtime_us in calls
                if self._models[function].is_outlier(runtime_us, self.sigma)
            }
        return found

    def _closed_in(self, step: TraceStep) -> Iterable[tuple[int, str, int, int]]:
        entry = self.names.event_type_id(EventType.ENTRY)
        for _, _, thread, kind, timer, time_us in step.events.tolist():
            stack = self._stacks[thread]
            if kind == entry:
                stack.append(_Open(timer, time_us))
                continue
            call = stack.pop()
            assert call.timer == timer
            if stack:
                stack[-1].children_us += time_us - call.entry_us
            if (thread, timer) in self._met:
                exclusive_us = time_us - call.entry_us - call.children_us
                yield thread, self.names.timer_name(timer), call.entry_us, exclusive_us
            self._met.add((thread, timer))
