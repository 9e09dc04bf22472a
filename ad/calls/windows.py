"""Provenance of single calls: the call stack, and the k calls before and after on the same thread.

A window may reach over steps. So three things outlive a step: the last k calls of each thread, the neighbours
of each call that is still open, and the records whose window has not filled yet.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.calls.buffers import WindowTables
from chimbuko.ad.calls.channels import Notes
from chimbuko.ad.calls.selection import NO_COUNTERS, CallLaunches, CallMetrics, Selection, StepCounters
from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.ad.kernels import retained
from chimbuko.ad.kernels import windows as kernels
from chimbuko.ad.kernels.output import put_out
from chimbuko.ad.kernels.recordtables import About, Chosen
from chimbuko.ad.kernels.retained import MAX_COUNTERS, Here
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep


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
