"""Provenance of single calls: the call stack, and the k calls before and after on the same thread.

A window may reach over steps. So three things outlive a step: the last k calls of each thread, the
neighbours of each call that is still open, and the records whose window has not filled yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from chimbuko.ad.additions import CallLaunches, CallMetrics, table
from chimbuko.ad.kernels import held as held_calls
from chimbuko.ad.kernels import windows as kernels
from chimbuko.ad.kernels.held import EMPTY, HELD, MAX_COUNTERS, Here, Marks, Pool
from chimbuko.ad.kernels.stack import CALL, NONE, THREAD, Table
from chimbuko.ad.kernels.windows import MAX_FRAMES, WINDOW, About, Chosen, Out, Places
from chimbuko.ad.selection import Selection
from chimbuko.ad.stacks import CallStacks
from chimbuko.config import AnalysisConfig
from chimbuko.packed import COUNTER, HEAD, MEMBER, MESSAGE, PARTS, PackedRecords
from chimbuko.trace.schema import EventType, StreamNames, TraceStep

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StepFacts:
    """What the records of a step have in common."""

    step: int
    interval_us: tuple[int, int]
    """Start and end of the step."""
    model_version: int
    """Version of the global model that judged its calls."""
    node_state: Table
    """``COUNTER`` rows: last value of each watched counter."""
    is_gpu: npt.NDArray[np.uint8]
    """u1[threads]"""


class Windows:
    """Makes the records of one stream's selected calls.

    Call ``step`` once per step, after its calls are built and selected.
    """

    def __init__(self, config: AnalysisConfig) -> None:
        self._config = config
        self._names = StreamNames()
        self._places = _no_places(config.window_calls)
        # The kernel reads the one and fills the other, step by step in turn.
        self._pool, self._later = _empty_pool(), _empty_pool()
        self._marks = Marks(*(np.empty(0, np.int32) for _ in Marks._fields))
        self._here = _nowhere()
        self._out = _no_records()

    def step(
        self,
        step: TraceStep,
        names: StreamNames,
        stacks: CallStacks,
        facts: StepFacts,
        selection: Selection,
        metrics: CallMetrics,
        launches: CallLaunches,
    ) -> PackedRecords:
        """Records that this step makes or completes."""
        self._names = names
        self._enter(step, names, stacks)
        self._make_room(selection.rows, facts, len(metrics.rows), len(launches.frames))
        kernels.make_records(
            self._places,
            self._pool,
            self._later,
            self._marks,
            self._here,
            _chosen(selection, metrics, launches),
            self._about(facts),
            self._out,
            stacks.message_calls,
            stacks.counter_calls,
        )
        self._pool, self._later = self._later, self._pool
        return self._packed()

    def finish(self) -> PackedRecords:
        """Final revisions of all records whose window did not fill; for the end of the stream."""
        self._here = _nowhere()
        facts = StepFacts(0, (0, 0), 0, table(COUNTER, 0), np.empty(0, np.uint8))
        self._make_room(np.empty(0, np.int32), facts, 0, 0)
        kernels.put_out(self._places, self._pool, self._out, self._about(facts), True)
        return self._packed()

    @property
    def held_calls(self) -> int:
        """Calls that are held for later steps, and for the records of the last one."""
        return int(self._pool.sizes[held_calls.MEMBERS])

    @property
    def held_records(self) -> int:
        """Records whose window has not filled."""
        return int(self._places.sizes[held_calls.RECORDS])

    def _enter(self, step: TraceStep, names: StreamNames, stacks: CallStacks) -> None:
        """Make the step and its call table known to the kernels."""
        here = self._here
        count, threads = stacks.count, len(stacks.threads)
        self._here = here._replace(
            calls=stacks.calls,
            carried=stacks.carried,
            total=count,
            threads=stacks.threads,
            thread_count=stacks.thread_count,
            comms=step.comms,
            counters=step.counters,
            send_type=np.uint64(names.event_type_id(EventType.SEND)),
            first=_with_room(here.first, threads),
            last=_with_room(here.last, threads),
            next_message=_with_room(here.next_message, len(step.comms)),
            messages_left=_with_room(here.messages_left, len(step.comms)),
            next_counter=_with_room(here.next_counter, len(step.counters)),
            counters_left=_with_room(here.counters_left, len(step.counters)),
            is_anomaly=_with_room(here.is_anomaly, count, 0),
            previous=_with_room(here.previous, count),
            following=_with_room(here.following, count),
            first_message=_with_room(here.first_message, count),
            first_counter=_with_room(here.first_counter, count),
        )
        recent = _with_room(self._places.recent, stacks.thread_count, EMPTY)
        self._places = self._places._replace(recent=recent)
        self._out = self._out._replace(
            functions=_with_room(self._out.functions, stacks.timers),
            is_mentioned=_with_room(self._out.is_mentioned, stacks.timers, 0),
        )

    def _make_room(
        self, rows: npt.NDArray[np.int32], facts: StepFacts, metrics: int, launch_frames: int
    ) -> None:
        """Room for all that the step can bring: memory that is never touched costs nothing."""
        here, k = self._here, self._config.window_calls
        sizes, held = self._places.sizes.tolist(), self._pool.sizes.tolist()
        depths = here.calls["depth"]
        records = sizes[held_calls.RECORDS] + len(rows)
        of_records = {
            "heads": records,
            "frames": sizes[held_calls.FRAMES] + int(np.minimum(depths[rows] + 1, MAX_FRAMES).sum()),
            "node_state": sizes[held_calls.NODE_STATE] + len(rows) * len(facts.node_state),
            "metrics": sizes[held_calls.METRICS] + metrics,
            "launch_frames": sizes[held_calls.LAUNCH_FRAMES] + launch_frames,
        }
        tops = here.threads["top"][: here.thread_count]
        opened = int((depths[tops[tops != NONE]] + 1).sum())
        opened = max(opened, sizes[held_calls.OPEN])
        members = (opened + records) * (2 * k + 1) + of_records["frames"] + here.thread_count * k
        members = min(members, held[held_calls.MEMBERS] + here.total)
        messages = held[held_calls.MESSAGES] + len(here.comms)
        counters = held[held_calls.COUNTERS] + len(here.counters)
        of_places = {"windows": records, "around": records, "open": opened, "open_around": opened}
        of_pool = {"members": members, "links": members, "messages": messages, "counters": counters}
        # A message stands in the windows of all calls around its own.
        of_out = {
            "members": records * (2 * k + 1),
            "calls": records * (2 * k + 1),
            "callers": of_records["frames"],
            "messages": min(records * self._config.max_messages, messages * (2 * k + 1)),
            "counters": min(records * self._config.max_counters, counters * (2 * k + 1)),
        }
        self._places = _enlarged(self._places, of_records | of_places)
        self._later = _enlarged(self._later, of_pool)
        self._marks = self._marks._replace(
            of_rows=_with_room(self._marks.of_rows, here.total, NONE),
            of_held=_with_room(self._marks.of_held, held[held_calls.MEMBERS], NONE),
            sources=_with_room(self._marks.sources, members, NONE),
        )
        self._out = _enlarged(self._out, of_records | of_out)

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
            facts.node_state,
        )

    def _packed(self) -> PackedRecords:
        """What was put out."""
        out = self._out
        if not out.sizes[held_calls.RECORDS]:
            return PackedRecords()
        functions = out.functions[: out.sizes[held_calls.FUNCTIONS]].tolist()
        counters = out.counter_names[: out.sizes[held_calls.COUNTER_NAMES]].tolist()
        return PackedRecords(
            functions=_named(functions, self._names.timers, "timer"),
            counter_names=_named(counters, self._names.counters | _ABSURD, "counter"),
            **{part: getattr(out, part)[: out.sizes[cell]].tobytes() for part, cell in _OUT_SIZES.items()},
        )


_ABSURD = {MAX_COUNTERS: "counter with an absurd number"}
_OUT_SIZES = {
    "heads": held_calls.RECORDS,
    "frames": held_calls.FRAMES,
    "members": held_calls.MEMBERS,
    "messages": held_calls.MESSAGES,
    "counters": held_calls.COUNTERS,
    "metrics": held_calls.METRICS,
    "node_state": held_calls.NODE_STATE,
    "launch_frames": held_calls.LAUNCH_FRAMES,
}
"""Which cell tells how many rows of each part of the records there are."""


def _no_places(k: int) -> Places:
    return Places(
        sizes=np.zeros(held_calls.SIZES, np.int64),
        recent=np.empty((0, k), np.int32),
        open=table(WINDOW, 0),
        open_around=np.empty((0, 2 * k + 1), np.int32),
        heads=table(HEAD, 0),
        windows=table(WINDOW, 0),
        around=np.empty((0, 2 * k + 1), np.int32),
        frames=np.empty(0, np.int32),
        node_state=table(COUNTER, 0),
        metrics=table(COUNTER, 0),
        launch_frames=table(MEMBER, 0),
    )


def _empty_pool() -> Pool:
    return Pool(
        sizes=np.zeros(held_calls.SIZES, np.int64),
        members=table(MEMBER, 0),
        links=table(HELD, 0),
        messages=table(MESSAGE, 0),
        counters=table(COUNTER, 0),
    )


def _nowhere() -> Here:
    """A step without anything."""
    none = np.empty(0, np.int32)
    return Here(
        calls=table(CALL, 0),
        carried=0,
        total=0,
        threads=table(THREAD, 0),
        thread_count=0,
        comms=np.empty((0, 8), np.uint64),
        counters=np.empty((0, 6), np.uint64),
        send_type=np.uint64(0),
        is_anomaly=np.empty(0, np.uint8),
        previous=none,
        following=none,
        first=none,
        last=none,
        first_message=none,
        next_message=none,
        messages_left=none,
        first_counter=none,
        next_counter=none,
        counters_left=none,
    )


def _no_records() -> Out:
    return Out(
        sizes=np.zeros(held_calls.SIZES, np.int64),
        calls=np.empty(0, np.int32),
        callers=np.empty(0, np.int32),
        functions=np.empty(0, np.int32),
        is_mentioned=np.zeros(0, np.uint8),
        counter_names=np.empty(MAX_COUNTERS + 1, np.int32),
        is_counter_mentioned=np.zeros(MAX_COUNTERS + 1, np.uint8),
        heads=table(HEAD, 0),
        **{part: table(dtype, 0) for part, dtype in PARTS.items()},
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
        metrics.counts,
        metrics.rows,
        launches.steps,
        launches.rows,
        launches.counts,
        launches.frames,
    )


def _named(numbers: list[int], names: dict[int, str], kind: str) -> dict[int, str]:
    return {number: names.get(number) or f"{kind} {number} (name not received)" for number in numbers}


Arrays = TypeVar("Arrays", Places, Pool, Out)


def _enlarged(arrays: Arrays, rows: dict[str, int]) -> Arrays:
    """With room for so many rows in the named arrays."""
    larger: dict[str, Any] = {
        name: _with_room(getattr(arrays, name), count)
        for name, count in rows.items()
        if len(getattr(arrays, name)) < count
    }
    return arrays._replace(**larger) if larger else arrays


def _with_room(array: Array, rows: int, fill: int | None = None) -> Array:
    """The array itself, or a larger one that begins with what it holds and goes on with ``fill``."""
    if len(array) >= rows:
        return array
    larger = np.empty((rows + rows // 4 + 64, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    if fill is not None:
        larger[len(array) :] = fill
    return larger.view(type(array))
