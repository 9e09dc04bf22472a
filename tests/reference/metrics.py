"""Slow, obvious twin of ``chimbuko.ad.calls.counters``: every value is looked up in the complete trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.reference.stacks import SlowCall, SlowStacks

Rises = dict[tuple[int, int], dict[int, int]]
"""By step and row of a call's ENTRY: by counter, what it rose by in the call."""


@dataclass
class _Thread:
    totals: list[tuple[int, int, int]] = field(default_factory=list)
    """Step, time and value, in order."""

    def until(self, time: int, step: int) -> tuple[int, int, int] | None:
        earlier = [total for total in self.totals if total[1] <= time and total[0] <= step]
        return earlier[-1] if earlier else None


def slow_rises(rank: int, steps: list[TraceStep], names: StreamNames, metrics: list[int]) -> Rises:
    """Rises of ``metrics`` in all calls that ended in a stream that is well-formed and without gaps."""
    stacks = SlowStacks(rank)
    threads: dict[tuple[int, int], _Thread] = defaultdict(_Thread)
    calls: dict[int, SlowCall] = {}
    ended_in: dict[int, int] = {}
    for step in steps:
        stacks.build(step, names)
        calls |= {id(call): call for call in stacks.calls}
        ended_in |= {id(call): step.step for call in stacks.calls}
        for _, _, thread, counter, value, time in step.counters.tolist():
            threads[thread, counter].totals.append((step.step, time, value))
    rises: Rises = {}
    for call in calls.values():
        if not call.exit:
            continue
        for metric in metrics:
            thread = threads[call.thread, metric]
            before, after = thread.until(call.entry, call.step), thread.until(call.exit, ended_in[id(call)])
            if before is not None and after is not None and after[1] == call.exit:
                rises.setdefault((call.step, call.row), {})[metric] = after[2] - before[2]
    return rises
