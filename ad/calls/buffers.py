"""The tables that the records of one stream are made in: reused from step to step, larger when need be."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.selection import table
from chimbuko.ad.kernels import retained
from chimbuko.ad.kernels.recordtables import ROOMS, WINDOW, Out, Places, Room
from chimbuko.ad.kernels.retained import EMPTY, HELD, MAX_COUNTERS, SIZES, Links, Pool, Sizes
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.calls.recordarrays import COUNTER, HEAD, MEMBER, MESSAGE, PARTS
from chimbuko.core.config import AnalysisConfig

Array = npt.NDArray[Any]

OUT_SIZES = {
    "heads": retained.RECORDS,
    "frames": retained.FRAMES,
    "members": retained.MEMBERS,
    "messages": retained.MESSAGES,
    "counters": retained.COUNTERS,
    "metrics": retained.METRICS,
    "node_state": retained.NODE_STATE,
    "launch_frames": retained.LAUNCH_FRAMES,
}
"""Which cell says how many rows of each part of the records there are."""


class WindowTables:
    """All tables, with the room that was last asked for."""

    def __init__(self, config: AnalysisConfig) -> None:
        self._config = config
        k = config.window_calls
        self._reach = 2 * k + 1
        self._most = config.max_messages, config.max_counters
        self._raw: list[tuple[str, int, int, Array]] = []
        self.room = Room(np.zeros(ROOMS, np.int64), np.zeros(ROOMS, np.int64))
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

    def __getstate__(self) -> dict[str, Any]:
        """The rows in use: all others are made anew in each step."""
        return {
            "config": self._config,
            "given": self.room[1],
            "places": _in_use(self.places),
            "pool": _in_use(self.pool),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["config"])  # type: ignore[misc]
        self.room[1][:] = state["given"]
        self.places = self.places._replace(**state["places"])
        self.pool = self.pool._replace(**state["pool"])
        self.enlarge()

    def parts(self) -> dict[str, bytes]:
        """What was put out, as the parts of ``PackedRecords``."""
        sizes = self.out.sizes.tolist()
        return {part: raw[: sizes[cell] * item].tobytes() for part, cell, item, raw in self._raw}

    def swap(self) -> None:
        """What was filled is what is read from now on: the kernel reads one pool and fills the other."""
        self.pool, self.later = self.later, self.pool

    def enlarge(self) -> None:
        """Make room for what is needed: memory that is never touched costs nothing."""
        needed, given = self.room
        room = np.where(needed > given, needed + needed // 4 + 64, given)
        given[:] = room
        calls, threads, timers, messages, counters, records, frames, *rest = room.tolist()
        node_state, metrics, launch_frames, opened, kept, kept_messages, kept_counters = rest
        of_records = {
            "heads": records,
            "frames": frames,
            "node_state": node_state,
            "metrics": metrics,
            "launch_frames": launch_frames,
        }
        of_pool = {
            "members": kept,
            "links": kept,
            "messages": kept_messages,
            "counters": kept_counters,
        }
        self.places = _enlarged(
            self.places,
            self.places.sizes,
            **of_records,
            windows=records,
            around=records,
            open=opened,
            open_around=opened,
            recent=threads,
        )
        self.pool = _enlarged(self.pool, self.pool.sizes, **of_pool)
        self.later = _enlarged(self.later, None, **of_pool)
        self.links = _enlarged(
            self.links,
            None,
            is_anomaly=calls,
            previous=calls,
            following=calls,
            first=threads,
            last=threads,
            first_message=kept,
            next_message=messages,
            messages_left=messages,
            first_counter=kept,
            next_counter=counters,
            counters_left=counters,
            of_rows=calls,
            of_held=kept,
            sources=kept,
        )
        most_messages, most_counters = self._most
        self.out = _enlarged(
            self.out,
            None,
            **of_records,
            members=records * self._reach,
            calls=records * self._reach,
            callers=frames,
            # A message stands in the windows of all calls around its own.
            messages=min(records * most_messages, kept_messages * self._reach),
            counters=min(records * most_counters, kept_counters * self._reach),
            functions=timers,
            is_mentioned=timers,
        )
        # To take a slice of a table of records costs 7 µs, of bytes 0.2 µs.
        arrays = [(part, cell, getattr(self.out, part)) for part, cell in OUT_SIZES.items()]
        self._raw = [(part, cell, array.itemsize, array.view(np.uint8)) for part, cell, array in arrays]


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

_USED = {
    "heads": retained.RECORDS,
    "windows": retained.RECORDS,
    "around": retained.RECORDS,
    "frames": retained.FRAMES,
    "node_state": retained.NODE_STATE,
    "metrics": retained.METRICS,
    "launch_frames": retained.LAUNCH_FRAMES,
    "open": retained.OPEN,
    "open_around": retained.OPEN,
    "members": retained.MEMBERS,
    "links": retained.MEMBERS,
    "messages": retained.MESSAGES,
    "counters": retained.COUNTERS,
}
"""Which cell says how many rows of each table are in use between steps."""

Arrays = TypeVar("Arrays", Places, Pool, Links, Out)


def _in_use(arrays: Places | Pool) -> dict[str, Array]:
    """Those that are not empty, without the room for more rows."""
    used = {
        name: array[: arrays.sizes[_USED[name]]] if name in _USED else array
        for name, array in arrays._asdict().items()
    }
    return {name: array for name, array in used.items() if len(array)}


def _enlarged(arrays: Arrays, in_use: Sizes | None, **rows: int) -> Arrays:
    """With room for so many rows in the named arrays; where sizes are given, rows in use are kept."""
    larger: dict[str, Any] = {}
    for name, count in rows.items():
        array = getattr(arrays, name)
        if len(array) < count:
            kept = 0
            if in_use is not None:
                kept = int(in_use[_USED[name]]) if name in _USED else len(array)
            larger[name] = _with_room(array, count, kept, _FILL.get(name))
    return arrays._replace(**larger)


def _with_room(array: Array, rows: int, kept: int, fill: int | None) -> Array:
    # No more is touched than has to be: the rest costs no memory.
    larger = np.empty((rows, *array.shape[1:]), array.dtype)
    larger[:kept] = array[:kept]
    if fill is not None:
        larger[kept:] = fill
    return larger.view(type(array))
