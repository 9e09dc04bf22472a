"""Rows of threads on which several stacks take turns, divided among lanes: a stack is a lane.

A thread notes when it goes on with another stack, which is all that a switch costs the program; here, in the
writer's process, its rows become those of its lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from chimbuko.core.arrays import BoolArray, Int64Array
from chimbuko.instrument.hooks.codes import FOUND, SWITCHED
from chimbuko.instrument.tracer.chunks import (
    COMM_COLUMNS,
    COUNTER_COLUMNS,
    DETAIL_COLUMNS,
    EVENT_COLUMNS,
    OPERATION_COLUMNS,
    ThreadRows,
)


class LaneSwitches:
    """Switches so far: the lane on which each thread is."""

    def __init__(self) -> None:
        self._lanes: dict[int, int] = {}

    def divided(self, threads: Iterable[ThreadRows]) -> Iterator[ThreadRows]:
        """Yield the rows of each lane; a thread that never switches is one lane of its own number."""
        for rows in threads:
            events = np.frombuffer(rows.events, np.int64).reshape(-1, EVENT_COLUMNS)
            is_switch = (events[:, 0] <= SWITCHED) & (events[:, 0] > FOUND)
            if rows.thread in self._lanes or is_switch.any():
                yield from self._divided(rows, events, is_switch)
            else:
                yield rows

    def _divided(self, rows: ThreadRows, events: Int64Array, is_switch: BoolArray) -> Iterator[ThreadRows]:
        switches = events[is_switch]
        lanes = np.append(self._lanes.get(rows.thread, rows.thread), SWITCHED - switches[:, 0])
        self._lanes[rows.thread] = int(lanes[-1])
        of_event = lanes[np.cumsum(is_switch)]
        kept = ~is_switch
        parts = {"events": (events[kept], of_event[kept])}
        widths = {"comms": COMM_COLUMNS, "counters": COUNTER_COLUMNS, "operations": OPERATION_COLUMNS}
        for name, columns in widths.items():
            of_kind = np.frombuffer(getattr(rows, name), np.int64).reshape(-1, columns)
            parts[name] = of_kind, lanes[np.searchsorted(switches[:, 1], of_kind[:, -1], "right")]
        if rows.details:
            details = np.frombuffer(rows.details, np.int64).reshape(-1, DETAIL_COLUMNS)
            parts["details"] = details, parts["comms"][1]
        for lane in sorted({int(lane) for _, of_rows in parts.values() for lane in np.unique(of_rows)}):
            of_lane = {name: values[of_rows == lane].tobytes() for name, (values, of_rows) in parts.items()}
            yield ThreadRows(lane, **of_lane)
