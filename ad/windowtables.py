"""The tables that the records of one stream are made in: reused from step to step, larger when need be."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from chimbuko.ad.additions import table
from chimbuko.ad.kernels.held import EMPTY, HELD, MAX_COUNTERS, SIZES, Links, Pool
from chimbuko.ad.kernels.stack import NONE
from chimbuko.ad.kernels.windows import WINDOW, Out, Places
from chimbuko.config import AnalysisConfig
from chimbuko.packed import COUNTER, HEAD, MEMBER, MESSAGE, PARTS

Array = npt.NDArray[Any]


class Room(NamedTuple):
    """How many of each thing there is room for."""

    calls: int = 0
    """Rows of the call table."""
    threads: int = 0
    timers: int = 0
    step_messages: int = 0
    step_counters: int = 0
    records: int = 0
    frames: int = 0
    """References to the calls of the records' stacks."""
    node_state: int = 0
    metrics: int = 0
    launch_frames: int = 0
    open: int = 0
    """Open calls."""
    held: int = 0
    messages: int = 0
    """Of held calls."""
    counters: int = 0


class WindowTables:
    """All tables, with the room that was last asked for."""

    def __init__(self, config: AnalysisConfig) -> None:
        k = config.window_calls
        self._reach = 2 * k + 1
        self._most = config.max_messages, config.max_counters
        self._room = Room()
        self.places = Places(
            sizes=np.zeros(SIZES, np.int64),
            recent=np.empty((0, k), np.int32),
            open=table(WINDOW, 0),
            open_around=np.empty((0, self._reach), np.int32),
            heads=table(HEAD, 0),
            windows=table(WINDOW, 0),
            around=np.empty((0, self._reach), np.int32),
            frames=np.empty(0, np.int32),
            node_state=table(COUNTER, 0),
            metrics=table(COUNTER, 0),
            launch_frames=table(MEMBER, 0),
        )
        self.pool, self.later = _empty_pool(), _empty_pool()
        self.links = Links(
            is_anomaly=np.empty(0, np.uint8),
            **{name: np.empty(0, np.int32) for name in Links._fields if name != "is_anomaly"},
        )
        self.out = Out(
            sizes=np.zeros(SIZES, np.int64),
            calls=np.empty(0, np.int32),
            callers=np.empty(0, np.int32),
            functions=np.empty(0, np.int32),
            is_mentioned=np.empty(0, np.uint8),
            counter_names=np.empty(MAX_COUNTERS + 1, np.int32),
            is_counter_mentioned=np.zeros(MAX_COUNTERS + 1, np.uint8),
            heads=table(HEAD, 0),
            **{part: table(dtype, 0) for part, dtype in PARTS.items()},
        )

    def swap(self) -> None:
        """What was filled is what is read from now on: the kernel reads one pool and fills the other."""
        self.pool, self.later = self.later, self.pool

    def reserve(self, room: Room) -> None:
        """Make room: memory that is never touched costs nothing."""
        if all(need <= has for need, has in zip(room, self._room, strict=True)):
            return
        pairs = zip(room, self._room, strict=True)
        room = self._room = Room(*(has if need <= has else need + need // 4 + 64 for need, has in pairs))
        of_records = {
            "heads": room.records,
            "frames": room.frames,
            "node_state": room.node_state,
            "metrics": room.metrics,
            "launch_frames": room.launch_frames,
        }
        of_pool = {
            "members": room.held,
            "links": room.held,
            "messages": room.messages,
            "counters": room.counters,
        }
        self.places = _enlarged(
            self.places,
            **of_records,
            windows=room.records,
            around=room.records,
            open=room.open,
            open_around=room.open,
            recent=room.threads,
        )
        self.pool, self.later = _enlarged(self.pool, **of_pool), _enlarged(self.later, **of_pool)
        self._reserve_links(room)
        most_messages, most_counters = self._most
        self.out = _enlarged(
            self.out,
            **of_records,
            members=room.records * self._reach,
            calls=room.records * self._reach,
            callers=room.frames,
            # A message stands in the windows of all calls around its own.
            messages=min(room.records * most_messages, room.messages * self._reach),
            counters=min(room.records * most_counters, room.counters * self._reach),
            functions=room.timers,
            is_mentioned=room.timers,
        )

    def _reserve_links(self, room: Room) -> None:
        self.links = _enlarged(
            self.links,
            is_anomaly=room.calls,
            previous=room.calls,
            following=room.calls,
            first=room.threads,
            last=room.threads,
            first_message=room.calls,
            next_message=room.step_messages,
            messages_left=room.step_messages,
            first_counter=room.calls,
            next_counter=room.step_counters,
            counters_left=room.step_counters,
            of_rows=room.calls,
            of_held=room.held,
            sources=room.held,
        )


def _empty_pool() -> Pool:
    return Pool(
        sizes=np.zeros(SIZES, np.int64),
        members=table(MEMBER, 0),
        links=table(HELD, 0),
        messages=table(MESSAGE, 0),
        counters=table(COUNTER, 0),
    )


_FILL = {"recent": EMPTY, "of_rows": NONE, "is_anomaly": 0, "is_mentioned": 0}
"""What new rows of an array hold, where that matters."""

Arrays = TypeVar("Arrays", Places, Pool, Links, Out)


def _enlarged(arrays: Arrays, **rows: int) -> Arrays:
    """With room for so many rows in the named arrays; what they hold is kept."""
    larger: dict[str, Any] = {
        name: _with_room(getattr(arrays, name), count, _FILL.get(name))
        for name, count in rows.items()
        if len(getattr(arrays, name)) < count
    }
    return arrays._replace(**larger)


def _with_room(array: Array, rows: int, fill: int | None) -> Array:
    larger = np.empty((rows, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    if fill is not None:
        larger[len(array) :] = fill
    return larger.view(type(array))
