"""The analysis of one stream: from steps to records, step counts and what was learned. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from chimbuko.ad.detection import Detection
from chimbuko.ad.detectors import Judgement
from chimbuko.ad.report import ReportedCalls, Reports
from chimbuko.ad.selection import Selection
from chimbuko.ad.stacks import CallStacks
from chimbuko.ad.statistics import Learned
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


class StreamAnalysis:
    """Analyses one stream.

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
        self._detection = Detection(config)
        self._stacks = CallStacks(identity.rank, last_step)
        self._reported = ReportedCalls()
        self._windows = Windows(identity, config)
        self._model_version = 0
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
        completed, selection = self._detection.step(stacks, names)
        selection = self._reported.complete(selection, stacks)
        # A step without events has no time of its own.
        end_us = self._interval_us[1]
        self._interval_us = step.interval_us() or (end_us, end_us)
        anomalies = set(selection.rows[selection.is_anomaly].tolist())
        selected = {
            row: (Label.ANOMALY if row in anomalies else Label.NORMAL, _judgement(selection, at))
            for at, row in enumerate(selection.rows.tolist())
        }
        view = StepView(step, names, stacks, anomalies, self._interval_us, self._identity, self._config)
        records = pack(self._windows.step(view, selected))
        severity_us = float(selection.severity_us[selection.is_anomaly].sum())
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

    @property
    def stacks(self) -> CallStacks:
        """The calls of the last step."""
        return self._stacks

    def expect(self, reports: Reports) -> None:
        """Record the end of these calls, which were reported as overdue, whatever the detector says of it."""
        self._reported.add(reports)

    def finish(self) -> PackedRecords:
        """Final revisions of records whose window did not fill; for the end of the stream."""
        return pack(self._windows.finish())

    def hand_out(self, generation: int) -> Learned:
        """What was learned since the last time; see ``StreamStatistics``."""
        return self._detection.statistics.hand_out(generation)

    def take_model(self, model: Float64Array, generation: int, version: int) -> None:
        """Judge by a newer global model from now on; see ``StreamStatistics``."""
        self._model_version = version
        self._detection.statistics.take_model(model, generation)

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


def _judgement(selection: Selection, at: int) -> Judgement:
    return Judgement(
        score=float(selection.score[at]),
        severity_us=float(selection.severity_us[at]),
        expected_us=float(selection.expected_us[at]),
        spread_us=float(selection.spread_us[at]),
        seen=int(selection.seen[at]),
    )
