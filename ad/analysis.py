"""The analysis of one stream: from steps to records, step counts and what was learned. No I/O.

Learn, then label: the calls of a step enter the stream's own statistics, and are then judged by
these together with what all streams had merged before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.ad.detectors import Judgement, make_detector
from chimbuko.ad.kernels import judge
from chimbuko.ad.stacks import CallStacks
from chimbuko.ad.stepview import StepView, StreamIdentity
from chimbuko.ad.windows import Windows
from chimbuko.config import AnalysisConfig
from chimbuko.moments import Float64Array
from chimbuko.packed import PackedRecords, pack
from chimbuko.records import Label, StepCount, StreamHealth
from chimbuko.trace.schema import StreamNames, TraceStep


@dataclass(frozen=True)
class StepResult:
    """What one step gave."""

    records: PackedRecords
    count: StepCount


@dataclass(frozen=True)
class Learned:
    """Statistics of a stream's own calls; rows are its timers."""

    timers: npt.NDArray[np.int64]
    """i8[n]: timer ids, ascending."""
    table: Float64Array
    """f8[n, width] by the detector's schema."""


class StreamAnalysis:
    """Analyses one stream.

    Statistics are kept in three parts, whose sum judges a call: the global model as last received;
    generations of own statistics that were handed out and are not yet in that model; and what was
    learned since. A part is dropped when the model contains it, so nothing is counted twice.

    Parameters
    ----------
    before, last_step
        Totals of a process that read the stream before, and the last step it counted.
    """

    def __init__(
        self,
        identity: StreamIdentity,
        config: AnalysisConfig,
        before: StreamHealth | None = None,
        last_step: int | None = None,
    ) -> None:
        self._before = before
        self._identity = identity
        self._config = config
        self._detector = make_detector(config)
        self._schema = self._detector.schema
        self._stacks = CallStacks(identity.rank, last_step)
        self._windows = Windows(identity, config)
        self._model = self._schema.empty(0)
        self._handed_out: dict[int, Learned] = {}
        self._own = self._schema.empty(0)
        self._touched = np.zeros(0, np.uint8)
        self._wanted = np.zeros(0, np.uint8)
        self._flagged = np.empty(0, np.int32)
        self._interval_us = 0, 0
        self._steps = 0
        self._rows = 0
        self._size_bytes = 0
        self._calls = 0
        self._anomalies = 0

    def analyse(self, step: TraceStep, names: StreamNames) -> StepResult:
        """Analyse the next step of the stream."""
        stacks = self._stacks
        stacks.build(step, names)
        self._reserve(stacks.timers)
        completed = judge.learn(stacks.calls, stacks.count, stacks.is_named, self._own, self._touched)
        selected, anomalies = self._select()
        # A step without events has no time of its own.
        end_us = self._interval_us[1]
        self._interval_us = step.interval_us() or (end_us, end_us)
        view = StepView(step, names, stacks, anomalies, self._interval_us, self._identity, self._config)
        records = pack(self._windows.step(view, selected))
        severity_us = sum(selected[row][1].severity_us for row in anomalies)
        self._steps += 1
        self._rows += step.rows
        self._size_bytes += step.size_bytes
        self._calls += completed
        self._anomalies += len(anomalies)
        count = StepCount(
            program=self._identity.program,
            rank=self._identity.rank,
            step=step.step,
            start_us=view.start_us,
            end_us=view.end_us,
            calls=completed,
            anomalies=len(anomalies),
            severity_us=severity_us,
        )
        return StepResult(records, count)

    def finish(self) -> PackedRecords:
        """Final revisions of records whose window did not fill; for the end of the stream."""
        return pack(self._windows.finish())

    def hand_out(self, generation: int) -> Learned:
        """What was learned since the last time, to be merged into the global model by others."""
        timers = np.flatnonzero(self._touched)
        learned = Learned(timers, self._own[timers].copy())
        self._own[timers] = self._schema.empty(len(timers))
        self._touched[:] = 0
        held = self._handed_out.get(generation)
        self._handed_out[generation] = learned if held is None else self._merged(held, learned)
        return learned

    def take_model(self, model: Float64Array, generation: int) -> None:
        """Judge by a global model from now on.

        Parameters
        ----------
        model
            f8[timers, width], rows by the stream's own timer ids.
        generation
            The last generation of own statistics that the model contains.
        """
        self._model = model
        self._handed_out = {held: kept for held, kept in self._handed_out.items() if held > generation}

    def health(self, state: str) -> StreamHealth:
        """Running totals, of earlier processes of the stream too."""
        own = StreamHealth(
            program=self._identity.program,
            rank=self._identity.rank,
            node=self._identity.node,
            state=state,
            steps=self._steps,
            rows=self._rows,
            size_bytes=self._size_bytes,
            calls=self._calls,
            anomalies=self._anomalies,
            gap_steps=self._stacks.gap_steps,
            losses=self._stacks.lost(),
        )
        return own if self._before is None else own.after(self._before)

    def _select(self) -> tuple[dict[int, tuple[Label, Judgement]], set[int]]:
        """Calls to record, by row of the call table, and which of them are anomalies."""
        stacks = self._stacks
        calls, count = stacks.calls, stacks.count
        use_inclusive = self._config.metric == "inclusive"
        table = self._known()
        lower, upper = self._detector.limits(table)
        if len(self._flagged) < count:
            self._flagged = np.empty(len(calls), np.int32)
        found = judge.flag(calls, count, stacks.is_named, use_inclusive, lower, upper, self._flagged)
        selected: dict[int, tuple[Label, Judgement]] = {}
        for row in self._flagged[:found].tolist():
            timer, judgement = self._judged(row, table)
            selected[row] = (Label.ANOMALY, judgement)
            self._own[timer, self._schema.slices["anomalies"]] += 1
            self._own[timer, self._schema.slices["severity_us"]] += judgement.severity_us
            self._wanted[timer] = 1
        anomalies = set(selected)
        if self._wanted.any():
            best = np.empty(len(self._wanted), np.int32)
            judge.most_typical(calls, count, use_inclusive, lower, upper, self._wanted, best)
            for row in best[best >= 0].tolist():
                timer, judgement = self._judged(row, table)
                selected[row] = (Label.NORMAL, judgement)
                self._wanted[timer] = 0
        return selected, anomalies

    def _judged(self, row: int, table: Float64Array) -> tuple[int, Judgement]:
        """The call's timer and judgement."""
        call = self._stacks.call(row)
        runtime_us = call.exit - call.entry
        if self._config.metric == "exclusive":
            runtime_us -= call.child_us
        return call.function, self._detector.judge(table[call.function], float(runtime_us))

    def _known(self) -> Float64Array:
        """All that is known, f8[timers, width]; only the rows touched since the last hand-out are right."""
        touched = np.flatnonzero(self._touched)
        table = self._schema.empty(self._stacks.timers)
        known = touched[touched < len(self._model)]
        table[known] = self._model[known]
        for learned in self._handed_out.values():
            self._schema.merge(table, learned.timers, learned.table)
        self._schema.merge(table, touched, self._own[touched])
        return table

    def _merged(self, first: Learned, second: Learned) -> Learned:
        timers = np.union1d(first.timers, second.timers)
        table = self._schema.empty(len(timers))
        for part in (first, second):
            self._schema.merge(table, np.searchsorted(timers, part.timers), part.table)
        return Learned(timers, table)

    def _reserve(self, timers: int) -> None:
        if timers <= len(self._own):
            return
        self._own = self._schema.grown(self._own, timers)
        self._touched = _grown(self._touched, len(self._own))
        self._wanted = _grown(self._wanted, len(self._own))


def _grown(marks: npt.NDArray[np.uint8], length: int) -> npt.NDArray[np.uint8]:
    return np.concatenate([marks, np.zeros(length - len(marks), np.uint8)])
