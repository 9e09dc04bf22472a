"""Provenance of single calls: the call stack, and the k calls before and after on the same thread, with the
tables in which these records are made.

A window may reach over steps. So three things outlive a step: the last k calls of each thread, the neighbours
of each call that is still open, and the records whose window has not filled yet.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.channels import Notes
from chimbuko.ad.calls.selection import NO_COUNTERS, CallLaunches, CallMetrics, Selection, StepCounters, table
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import retained
from chimbuko.ad.kernels import windows as kernels
from chimbuko.ad.kernels.output import put_out
from chimbuko.ad.kernels.recordtables import ROOMS, WINDOW, About, Chosen, Out, Places, Room
from chimbuko.ad.kernels.retained import EMPTY, HELD, MAX_COUNTERS, SIZES, Here, Links, Pool, Sizes
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.calls.recordarrays import COUNTER, HEAD, MEMBER, MESSAGE, PARTS, PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep

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
"""Cell with the number of rows of each part of the records."""


class WindowTables:
    """All tables of records in the making, with the room that was last asked for."""

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
        """Return the rows in use: all others are made anew in each step."""
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
        """Return the output, as the parts of ``PackedRecords``."""
        sizes = self.out.sizes.tolist()
        return {part: raw[: sizes[cell] * item].tobytes() for part, cell, item, raw in self._raw}

    def swap(self) -> None:
        """Swap the two pools: the kernel reads one and fills the other."""
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
            # A message belongs to the windows of all calls around its own.
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
"""Initial value of new rows, for arrays where it matters."""

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
"""Cell with the number of rows of each table that are in use between steps."""

Arrays = TypeVar("Arrays", Places, Pool, Links, Out)


def _in_use(arrays: Places | Pool) -> dict[str, Array]:
    """Return the arrays that are not empty, without the room for more rows."""
    used = {
        name: array[: arrays.sizes[_USED[name]]] if name in _USED else array
        for name, array in arrays._asdict().items()
    }
    return {name: array for name, array in used.items() if len(array)}


def _enlarged(arrays: Arrays, in_use: Sizes | None, **rows: int) -> Arrays:
    """Return the arrays with room for so many rows in the named ones; where sizes are given, rows in use are
    kept.
    """
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
    # Only the rows in use are touched: the rest costs no memory.
    larger = np.empty((rows, *array.shape[1:]), array.dtype)
    larger[:kept] = array[:kept]
    if fill is not None:
        larger[kept:] = fill
    return larger.view(type(array))


class StepFacts(msgspec.Struct, frozen=True):
    """Facts that the records of a step have in common."""

    step: int
    interval_us: tuple[int, int]
    """Start and end of the step."""
    model_version: int
    """Version of the global model that judged its calls."""
    counters: StepCounters
    is_gpu: npt.NDArray[np.uint8]
    """Whether each thread is a GPU's, uint8[threads]."""


class Windows:
    """Maker of the records of one stream's selected calls."""

    def __init__(self, config: AnalysisConfig) -> None:
        self._config = config
        self._names = StreamNames()
        self._tables = WindowTables(config)

    def step(
        self,
        step: TraceStep,
        names: StreamNames,
        stacks: CallStacks,
        facts: StepFacts,
        notes: Notes,
        selection: Selection,
        launches: CallLaunches,
    ) -> PackedRecords:
        """Return the records that this step makes or completes; ``notes`` are of its messages."""
        self._names = names
        here, chosen = _here(step, names, stacks, notes), _chosen(selection, facts.counters.metrics, launches)
        about = self._about(facts)
        tables = self._tables
        while not kernels.make_records(
            tables.room,
            tables.places,
            tables.pool,
            tables.later,
            here,
            tables.links,
            chosen,
            about,
            stacks.message_calls,
            facts.counters.owners,
        ):
            tables.enlarge()
        tables.swap()
        return self._put_out(about, is_end=False)

    def finish(self) -> PackedRecords:
        """Return final revisions of all records whose window did not fill, at the end of the stream."""
        return self._put_out(self._about(StepFacts(0, (0, 0), 0, NO_COUNTERS, _NO_THREADS)), is_end=True)

    @property
    def held_records(self) -> int:
        """Number of records whose window has not filled."""
        return int(self._tables.places.sizes[retained.RECORDS])

    def _about(self, facts: StepFacts) -> About:
        config = self._config
        return About(
            facts.step,
            *facts.interval_us,
            facts.model_version,
            config.final_after_steps,
            config.max_messages,
            config.max_counters,
            facts.is_gpu,
            facts.counters.node_state,
        )

    def _put_out(self, about: About, is_end: bool) -> PackedRecords:
        """Return the records that are new or final."""
        tables = self._tables
        if not self.held_records:
            return PackedRecords()
        put_out(tables.places, tables.pool, tables.out, about, is_end)
        out = tables.out
        sizes = out.sizes.tolist()
        if not sizes[retained.RECORDS]:
            return PackedRecords()
        functions = out.functions[: sizes[retained.FUNCTIONS]].tolist()
        counters = out.counter_names[: sizes[retained.COUNTER_NAMES]].tolist()
        return PackedRecords(
            functions=_named(functions, self._names.timers, "timer"),
            counter_names=_named(counters, self._names.counters | _ABSURD, "counter"),
            **self._tables.parts(),
        )


_NO_THREADS = np.empty(0, np.uint8)
_ABSURD = {MAX_COUNTERS: "counter with an absurd number"}


def _here(step: TraceStep, names: StreamNames, stacks: CallStacks, notes: Notes) -> Here:
    return Here(
        stacks.calls,
        stacks.carried,
        stacks.count,
        stacks.timers,
        stacks.threads,
        stacks.thread_count,
        step.comms,
        notes,
        step.counters,
        np.uint64(names.event_type_id(EventType.SEND)),
    )


def _chosen(selection: Selection, metrics: CallMetrics, launches: CallLaunches) -> Chosen:
    return Chosen(
        selection.rows,
        selection.is_anomaly,
        selection.score,
        selection.severity_us,
        selection.expected_us,
        selection.spread_us,
        selection.seen,
        selection.flagged,
        metrics.counts,
        metrics.rows,
        launches.steps,
        launches.rows,
        launches.threads,
        launches.counts,
        launches.frames,
    )


def _named(numbers: list[int], names: dict[int, str], kind: str) -> dict[int, str]:
    return {number: names.get(number) or f"{kind} {number} (name not received)" for number in numbers}
