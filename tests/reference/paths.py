"""Slow, obvious twin of ``chimbuko.ad.calls.callpaths``: a dictionary of lists of runtimes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import zip_longest

from chimbuko.core.arrays import Rows
from chimbuko.core.traceschema import StreamNames
from tests.reference.stacks import SlowCall, SlowStacks

Path = tuple[int, ...]
"""Functions, outermost first; none for all that have no path of their own."""
OTHERS: Path = ()


class SlowPaths:
    """Same meaning as ``CallPaths``, of all steps together."""

    def __init__(self, most_paths: int, most_depth: int) -> None:
        self.most_paths = most_paths
        self.most_depth = most_depth
        self.known: list[Path] = [OTHERS]
        self.of_call: dict[SlowCall, Path] = {}
        self.exclusive_us: dict[Path, list[int]] = defaultdict(list)
        self.inclusive_us: dict[Path, list[int]] = defaultdict(list)
        self.begun: dict[Path, int] = defaultdict(int)
        self.spent_us: dict[Path, int] = defaultdict(int)

    def read(self, stacks: SlowStacks, names: StreamNames) -> None:
        for call in stacks.calls[stacks.carried :]:
            self.of_call[call] = self._path(call)
            self.begun[self.of_call[call]] += 1
            call.spent_us = 0
        for call in stacks.calls:
            if call.exit:
                self._spend(call, call.exit - call.entry - call.child_us)
        for thread in stacks.threads.values():
            for call, inside in zip_longest(thread.stack, thread.stack[1:]):
                inside_us = 0 if inside is None else max(thread.last_time, inside.entry) - inside.entry
                open_us = max(thread.last_time, call.entry) - call.entry
                self._spend(call, open_us - call.child_us - inside_us)
        for call in stacks.calls:
            if call.exit and not call.flags and call.function in names.timers:
                path = self.of_call[call]
                self.inclusive_us[path].append(call.exit - call.entry)
                self.exclusive_us[path].append(call.exit - call.entry - call.child_us)

    def _spend(self, call: SlowCall, exclusive_us: int) -> None:
        self.spent_us[self.of_call[call]] += exclusive_us - call.spent_us
        call.spent_us = exclusive_us

    def _path(self, call: SlowCall) -> Path:
        above = () if call.parent is None else self.of_call[call.parent]
        if call.depth >= self.most_depth or (call.parent is not None and above == OTHERS):
            return OTHERS
        path = (*above, call.function)
        if path not in self.known:
            if len(self.known) == self.most_paths:
                return OTHERS
            self.known.append(path)
        return path


def paths_of(rows: Rows) -> dict[Path, tuple[float, ...]]:
    """What rows say of paths that have calls or time: functions to all columns but the place and looks."""
    assert rows.dtype.names is not None
    rows = rows[[name for name in rows.dtype.names if name not in ("looked_us", "asleep_us")]]
    paths: list[Path] = []
    for parent, function, *_ in rows.tolist():
        paths.append((*(paths[parent] if parent >= 0 else ()), function) if function >= 0 else OTHERS)
    return {
        path: values
        for path, (_, _, *values) in zip(paths, map(tuple, rows.tolist()), strict=True)
        if values[0] or values[-1] or values[-2]
        for values in [tuple(values)]
    }


def columns_of(exclusive_us: list[int], inclusive_us: list[int]) -> tuple[float, ...]:
    """What a ``PATH`` row has of calls with these runtimes."""
    of_both = [
        (sum(runtimes), sum(runtime**2 for runtime in runtimes), min(runtimes), max(runtimes))
        for runtimes in (exclusive_us, inclusive_us)
    ]
    return (len(exclusive_us), *of_both[0], *of_both[1])


def moments_of(runtimes_us: list[int]) -> tuple[float, float, float, float]:
    """Mean, standard deviation, minimum and maximum."""
    stddev = statistics.stdev(runtimes_us) if len(runtimes_us) > 1 else 0.0
    return statistics.fmean(runtimes_us), stddev, min(runtimes_us), max(runtimes_us)
