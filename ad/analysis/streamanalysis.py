"""The analysis of one stream: from steps to records, step counts and what was learned. No I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import numpy as np

from chimbuko.ad.analysis.detection import Detection
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import RankSpeeds, StreamTelemetry, Traffic
from chimbuko.ad.calls.callpaths import CallPaths, busiest
from chimbuko.ad.calls.channels import Channels, landmarks
from chimbuko.ad.calls.counters import Counters
from chimbuko.ad.calls.launches import Launches
from chimbuko.ad.calls.reportedcalls import ReportedCalls, Reports
from chimbuko.ad.calls.selection import FloodLimit, Selection
from chimbuko.ad.calls.stacks import MAIN_THREAD, CallStacks
from chimbuko.ad.calls.windows import StepFacts, Windows
from chimbuko.core.arrays import Float64Array, Int32Array, Int64Array, Rows
from chimbuko.core.calls.record import CounterStatistics, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.config import METRICS, AnalysisConfig
from chimbuko.core.sourcecensus import CALLS_SEEN, SourceCensus, parse_census
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import PathTimes


@dataclass(frozen=True)
class StepResult:
    """Result of one step."""

    records: PackedRecords
    count: StepCount
    left_out: dict[str, int]
    """Number of abnormal calls of each function that are not recorded, as they are too many."""

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        return sum(map(len, msgspec.structs.astuple(self.records)))


@dataclass(frozen=True)
class Extent:
    """Upper bounds of the rows that are handed out next."""

    timers: Int64Array
    """Timers that have new statistics, ascending."""
    traffic: int
    flagged_steps: int
    paths: int


@dataclass(frozen=True)
class Findings:
    """Findings of one stream for the other agents and the parameter server."""

    learned: Learned
    telemetry: StreamTelemetry
    paths: Rows
    """``PATH`` rows: calls by call path; functions are the stream's timer ids."""


class StreamAnalysis:
    """Analysis of one stream. It can be pickled between two steps, for a process that continues it."""

    def __init__(self, identity: StreamIdentity, config: AnalysisConfig) -> None:
        self._identity = identity
        self._config = config
        self._detection = Detection(config)
        self._stacks = CallStacks(identity.rank)
        self._reported = ReportedCalls()
        self._counters = Counters(identity.rank, config.watched_counters)
        self._flood_limit = FloodLimit(config)
        self._launches = Launches()
        self._channels = Channels()
        self._windows = Windows(config)
        self._traffic = Traffic(identity.program, identity.rank)
        is_exclusive, schema = config.metric == METRICS[0], self._detection.schema
        self._paths = CallPaths()
        self._paces = RankSpeeds(identity.program, identity.rank, schema, is_exclusive, config.period_us)
        self._names = StreamNames()
        self._has_ended = False
        self._model_version = 0
        self._interval_us = 0, 0
        self._earlier_losses: dict[str, int] = {}
        self._steps = 0
        self._rows = 0
        self._size_bytes = 0
        self._largest_step_bytes = 0
        self._calls = 0
        self._gpu_us = 0
        self._anomalies = 0
        self._source: SourceCensus | None = None

    def analyse(self, step: TraceStep, names: StreamNames) -> StepResult:
        """Analyse the next step of the stream."""
        stacks = self._stacks
        self._names = names
        read = step
        step, notes = self._channels.read(step, names)
        stacks.build(step, names)
        self._traffic.read(step, names)
        self._detection.read_left_out(stacks, names, self._paths)
        self._paths.read(stacks, self._detection.usual)
        marks = landmarks(notes, stacks.message_calls, stacks.calls)
        completed, judged = self._detection.step(stacks, names, marks)
        is_recorded = self._config.records_step(step.step)
        selection = self._reported.complete(judged if is_recorded else Selection.none(), stacks)
        counted = selection if is_recorded else judged
        is_flagged = counted.is_anomaly
        anomalies = int(np.count_nonzero(is_flagged))
        # A step without events has no time of its own.
        end_us = self._interval_us[1]
        self._interval_us = stacks.interval_us or (end_us, end_us)
        selection = self._flood_limit.keep(
            selection, stacks.calls, stacks.carried, stacks.timers, self._interval_us[1]
        )
        counters = self._counters.step(step, names, stacks, selection.rows)
        launches = self._launches.of_calls(step, names, stacks, selection)
        facts = StepFacts(step.step, self._interval_us, self._model_version, counters, self._launches.is_gpu)
        records = self._windows.step(step, names, stacks, facts, notes, selection, launches)
        records = self._launches.complete(records)
        self._steps += 1
        self._rows += read.rows
        self._size_bytes += read.size_bytes
        self._largest_step_bytes = max(self._largest_step_bytes, read.size_bytes)
        self._calls += completed
        self._gpu_us += self._launches.gpu_us(stacks)
        self._anomalies += anomalies
        count = StepCount(
            program=self._identity.program,
            rank=self._identity.rank,
            step=step.step,
            start_us=self._interval_us[0],
            end_us=self._interval_us[1],
            calls=completed,
            anomalies=anomalies,
            severity_us=float(counted.severity_us[is_flagged].sum()) if anomalies else 0.0,
            highest_score=float(counted.score[is_flagged].max(initial=0.0)) if anomalies else 0.0,
        )
        return StepResult(records, count, _by_name(stacks.calls["function"][selection.left_out], names))

    def follow(self, first_step: int, totals: StreamHealth | None) -> None:
        """Begin at a step, after a process of which only the totals are left."""
        self._stacks.last_step = first_step - 1
        if totals is not None:
            self._steps, self._rows, self._calls = totals.steps, totals.rows, totals.calls
            self._size_bytes, self._largest_step_bytes = totals.size_bytes, totals.largest_step_bytes
            self._anomalies, self._stacks.gap_steps = totals.anomalies, totals.gap_steps
            self._source = totals.source
            self._earlier_losses = dict(totals.losses)

    def end(self, steps: int | None) -> None:
        """Note that the stream had ``steps`` steps, if that is known: steps at its end that never came are a
        gap.
        """
        if steps is not None:
            self._stacks.end(steps)

    def note_source(self, source: SourceCensus | None) -> None:
        """Note what the source says to have seen, if it is not known from the stream itself."""
        self._source = self._source or source

    @property
    def steps(self) -> int:
        """Number of steps that were analysed."""
        return self._steps

    @property
    def end_us(self) -> int:
        """Time of the newest event."""
        return self._interval_us[1]

    @property
    def stacks(self) -> CallStacks:
        """Calls of the last step."""
        return self._stacks

    def expect(self, reports: Reports) -> None:
        """Record the end of these calls, which were reported as overdue, whatever the detector says of
        them.
        """
        self._reported.add(reports)

    def finish(self) -> PackedRecords:
        """Return final revisions of records whose window did not fill, at the end of the stream."""
        self._has_ended = True
        return self._launches.complete(self._windows.finish())

    @property
    def extent(self) -> Extent:
        """Return how much room is needed for what is handed out next."""
        statistics = self._detection.statistics
        return Extent(
            statistics.learned_timers, self._traffic.most, statistics.flagged_steps.most, self._paths.count
        )

    def lose(self, kind: str, number: int = 1) -> None:
        """Count something of the stream that cannot be kept."""
        self._earlier_losses[kind] = self._earlier_losses.get(kind, 0) + number

    def has_lost(self, kind: str) -> bool:
        """Return whether anything of a kind was counted by ``lose``."""
        return kind in self._earlier_losses

    def hand_out(self, generation: int) -> Findings:
        """Return what is to be merged with others' and was not handed out yet; see ``StreamStatistics``."""
        statistics = self._detection.statistics
        learned = statistics.hand_out(generation)
        self._paces.add(learned, self._interval_us[1], self._names, self._detection.left_out.is_caller)
        if self._has_ended:
            self._paces.end_window(self._names)
        telemetry = StreamTelemetry(
            self._traffic.not_taken(generation),
            self._paces.hand_out(),
            statistics.flagged_steps.not_taken(generation),
        )
        return Findings(learned, telemetry, self._paths.hand_out())

    def take_model(
        self, model: Float64Array, generation: int, version: int, ahead: Int64Array | None = None
    ) -> None:
        """Judge by a newer global model from now on; see ``StreamStatistics``."""
        self._model_version = version
        self._detection.statistics.take_model(model, generation, ahead)

    def counter_statistics(self) -> list[CounterStatistics]:
        """Return running totals of all counters."""
        return self._counters.statistics()

    def path_times(self) -> PathTimes:
        """Return the runtimes of the stream's calls by call path."""
        rows = busiest(self._paths.times())
        timers, at = np.unique(rows["function"][1:], return_inverse=True)
        rows["function"][1:] = at
        return PathTimes([self._names.timer_name(timer) for timer in timers.tolist()], rows.tobytes())

    def health(self, state: str) -> StreamHealth:
        """Return running totals of the stream."""
        # Metadata of the last step may have come with the end of the stream.
        said = self._names.metadata.get((self._identity.rank, MAIN_THREAD, CALLS_SEEN))
        threads, thread_us = self._thread_times()
        return StreamHealth(
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
            losses=dict(Counter(self._earlier_losses) + Counter(self._stacks.lost() | self._launches.lost())),
            largest_step_bytes=self._largest_step_bytes,
            open_calls=self._stacks.open_calls,
            source=parse_census(said) or self._source,
            threads=threads,
            thread_us=thread_us,
            gap_us=self._stacks.gap_us,
            gpu_us=self._gpu_us,
        )

    def _thread_times(self) -> tuple[int, int]:
        """Return the number of threads that are no GPU's, and their time from first to last events."""
        stacks = self._stacks
        threads = stacks.threads[: stacks.thread_count]
        is_gpu = np.zeros(len(threads), np.bool_)
        is_gpu[: len(self._launches.is_gpu)] = self._launches.is_gpu[: len(threads)] != 0
        first_us, last_us = (threads[name][~is_gpu].astype(np.int64) for name in ("first_time", "last_time"))
        spans_us = np.maximum(last_us - first_us, 0)[first_us > 0]
        return len(spans_us), int(spans_us.sum())


def _by_name(functions: Int32Array, names: StreamNames) -> dict[str, int]:
    """Return how often each function occurs."""
    numbers = Counter(functions.tolist()) if len(functions) else {}
    return {names.timer_name(function): number for function, number in numbers.items()}


@dataclass(frozen=True)
class StreamIdentity:
    """Identity of a stream, which is part of every record."""

    program: int
    rank: int
    node: str
