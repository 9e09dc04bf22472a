"""The analysis of one stream: from steps to records, step counts and what was learned. No I/O."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from chimbuko.ad.analysis.detection import Detection
from chimbuko.ad.analysis.ownstretches import Stretches, StretchFacts
from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import RankSpeeds, StreamTelemetry, Traffic
from chimbuko.ad.calls.callpaths import CallPaths, busiest
from chimbuko.ad.calls.channels import Channels, Notes, landmarks
from chimbuko.ad.calls.counters import Counters
from chimbuko.ad.calls.launches import Launches
from chimbuko.ad.calls.reportedcalls import ReportedCalls, Reports
from chimbuko.ad.calls.selection import CallLaunches, FloodLimit, Selection, StepCounters
from chimbuko.ad.calls.stacks import MAIN_THREAD, CallStacks
from chimbuko.ad.calls.threadtimes import ThreadTimes
from chimbuko.ad.calls.windows import StepFacts, Windows
from chimbuko.ad.kernels.stack import NONE
from chimbuko.core.arrays import Float64Array, Int32Array, Int64Array, Rows, UInt8Array
from chimbuko.core.calls.record import BEYOND_BUDGET, CounterStatistics, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, joined
from chimbuko.core.calls.waiting import TimeKind
from chimbuko.core.config import METRICS, AnalysisConfig
from chimbuko.core.sourcecensus import CALLS_SEEN, SourceCensus, parse_census
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import PathTimes

_NOTHING = np.empty(0)
_SPENT = StepCount.__struct_fields__[-len(TimeKind) :]


class StepResult(msgspec.Struct, frozen=True):
    """Result of one step."""

    records: PackedRecords
    count: StepCount
    left_out: dict[str, int]
    """Number of abnormal calls of each function that are not recorded, as they are too many."""

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        return sum(map(len, msgspec.structs.astuple(self.records)))


class Extent(msgspec.Struct, frozen=True):
    """Upper bounds of the rows that are handed out next."""

    timers: Int64Array
    """Timers that have new statistics, ascending."""
    traffic: int
    flagged_steps: int
    paths: int


class Findings(msgspec.Struct, frozen=True):
    """Findings of one stream for the other agents and the parameter server."""

    learned: Learned
    telemetry: StreamTelemetry
    paths: Rows
    """``PATH`` rows: calls by call path; functions are the stream's timer ids."""


class _Numbered(msgspec.Struct, frozen=True):
    """Step with its collective operations among its messages, each with its number on its channel.

    This and the following are the stages of a step: each has the one before it, ``of``, and is what the next
    one takes, so that no stage can come before what it builds on.
    """

    step: TraceStep
    names: StreamNames
    notes: Notes


class _Built(msgspec.Struct, frozen=True):
    """Step whose calls are rebuilt, with messages and counter values attached."""

    of: _Numbered
    stacks: CallStacks
    interval_us: tuple[int, int]


class _OnPaths(msgspec.Struct, frozen=True):
    """Step whose calls have their call paths.

    It also has the usual runtimes on these paths, and the time of callees that are left out at times.
    """

    of: _Built
    spent_us: Int64Array
    """Time that each carried call spent in its own code in the step, int64[carried]."""


class _Judged(msgspec.Struct, frozen=True):
    """Step whose calls were learned from and judged."""

    of: _Built
    completed: int
    """Number of calls that ended."""
    selection: Selection
    stretches: Stretches


class _Selected(msgspec.Struct, frozen=True):
    """Step whose calls to record are chosen."""

    of: _Judged
    counted: Selection
    """Calls of which the abnormal ones count, also where there are too many to record them."""
    selection: Selection
    """Calls to record."""


class _Described(msgspec.Struct, frozen=True):
    """Counters, launches and GPU threads of the calls to record."""

    counters: StepCounters
    launches: CallLaunches
    is_gpu: UInt8Array


class _Totals(msgspec.Struct):
    """Running totals of a stream."""

    steps: int = 0
    rows: int = 0
    size_bytes: int = 0
    largest_step_bytes: int = 0
    calls: int = 0
    anomalies: int = 0
    gpu_us: int = 0

    def add(self, read: TraceStep, count: StepCount, gpu_us: int) -> None:
        self.steps += 1
        self.rows += read.rows
        self.size_bytes += read.size_bytes
        self.largest_step_bytes = max(self.largest_step_bytes, read.size_bytes)
        self.calls += count.calls
        self.anomalies += count.anomalies
        self.gpu_us += gpu_us


class StreamAnalysis:
    """Analysis of one stream. It can be pickled between two steps, for a process that continues it."""

    def __init__(self, identity: StreamIdentity, config: AnalysisConfig) -> None:
        self._identity = identity
        self._config = config
        self._detection = Detection(config)
        self._stacks = CallStacks(identity.rank)
        self._reported = ReportedCalls()
        self._counters = Counters(identity.rank, config.watched_counters)
        self.flood_limit = FloodLimit(config)
        """Limit on what is recorded, with the part of it that the node's budget decides."""
        self._launches = Launches(uncorrelated=config.uncorrelated)
        self._channels = Channels()
        self._windows = Windows(config)
        self._traffic = Traffic(identity.program, identity.rank)
        is_exclusive, schema = config.metric == METRICS[0], self._detection.schema
        self._paths = CallPaths()
        self._by_thread = ThreadTimes()
        self._paces = RankSpeeds(identity.program, identity.rank, schema, is_exclusive, config.period_us)
        self._names = StreamNames()
        self._has_ended = False
        self._model_version = 0
        self._interval_us = 0, 0
        self._earlier_losses: dict[str, int] = {}
        self._totals = _Totals()
        self._source: SourceCensus | None = None

    def analyse(self, step: TraceStep, names: StreamNames) -> StepResult:
        """Analyse the next step of the stream."""
        self._names = names
        built = self._build(self._number(step, names))
        selected = self._select(self._judge(self._follow_paths(built)))
        records = self._record(selected, self._describe(selected))
        gpu_us = self._launches.gpu_us(built.stacks)
        count = self._count(selected, gpu_us)
        self._totals.add(step, count, gpu_us)
        calls, left_out = built.stacks.calls, selected.selection.left_out
        return StepResult(records, count, _by_name(calls["function"][left_out], names))

    def read_looks(self, looks: Rows) -> None:
        """Learn what threads did at moments of the step that was analysed last, ``LOOK`` rows by time."""
        if len(looks):
            self._paths.read_looks(self._stacks, looks)

    def _number(self, read: TraceStep, names: StreamNames) -> _Numbered:
        step, notes = self._channels.read(read, names)
        self._traffic.read(step, names)
        return _Numbered(step, names, notes)

    def _build(self, numbered: _Numbered) -> _Built:
        stacks = self._stacks
        stacks.build(numbered.step, numbered.names)
        # A step without events has no time of its own.
        end_us = self._interval_us[1]
        self._interval_us = stacks.interval_us or (end_us, end_us)
        return _Built(numbered, stacks, self._interval_us)

    def _follow_paths(self, built: _Built) -> _OnPaths:
        # Callees that are left out are found by the paths of the steps before.
        self._detection.read_left_out(built.stacks, built.of.names, self._paths)
        stacks = built.stacks
        spent_us = stacks.calls["spent_us"][: stacks.carried].copy()
        self._paths.read(stacks, self._detection.usual)
        self._by_thread.read(stacks)
        return _OnPaths(built, stacks.calls["spent_us"][: stacks.carried] - spent_us)

    def _judge(self, on_paths: _OnPaths) -> _Judged:
        built = on_paths.of
        marks = landmarks(built.of.notes, built.stacks.message_calls, built.stacks.calls)
        completed, selection = self._detection.step(built.stacks, built.of.names, self._paths, marks)
        about = StretchFacts(built.of.step.step, built.interval_us, self._model_version)
        stretches = self._detection.stretches(built.stacks, on_paths.spent_us, built.of.names, about)
        return _Judged(built, completed, selection, stretches)

    def _select(self, judged: _Judged) -> _Selected:
        built, stacks = judged.of, judged.of.stacks
        is_recorded = self._config.records_step(built.of.step.step)
        chosen = self._reported.complete(judged.selection if is_recorded else Selection.none(), stacks)
        counted = chosen if is_recorded else judged.selection
        kept = self.flood_limit.keep(
            chosen, stacks.calls, stacks.carried, stacks.timers, built.interval_us[1]
        )
        if kept.beyond_budget:
            self.lose(BEYOND_BUDGET, kept.beyond_budget)
        return _Selected(judged, counted, kept)

    def _describe(self, selected: _Selected) -> _Described:
        built = selected.of.of
        step, names, stacks = built.of.step, built.of.names, built.stacks
        counters = self._counters.step(step, names, stacks, selected.selection.rows)
        launches = self._launches.of_calls(step, names, stacks, selected.selection)
        return _Described(counters, launches, self._launches.is_gpu)

    def _record(self, selected: _Selected, described: _Described) -> PackedRecords:
        built = selected.of.of
        step, names, notes = built.of.step, built.of.names, built.of.notes
        facts = StepFacts(
            step.step, built.interval_us, self._model_version, described.counters, described.is_gpu
        )
        records = self._windows.step(
            step, names, built.stacks, facts, notes, selected.selection, described.launches
        )
        records, of_stretches = self._launches.complete(records), selected.of.stretches.records
        is_recorded = of_stretches.count and self._config.records_step(step.step)
        return joined([records, of_stretches]) if is_recorded else records

    def _count(self, selected: _Selected, gpu_us: int) -> StepCount:
        counted, built, stretches = selected.counted, selected.of.of, selected.of.stretches
        is_flagged = counted.is_anomaly
        anomalies = int(np.count_nonzero(is_flagged)) + len(stretches.lost_us)
        lost_us = np.append(counted.severity_us[is_flagged], stretches.lost_us) if anomalies else _NOTHING
        score = np.append(counted.score[is_flagged], stretches.score) if anomalies else _NOTHING
        computing_us, *other_us = self._paths.spent_us(built.of.names)
        return StepCount(
            program=self._identity.program,
            rank=self._identity.rank,
            step=built.of.step.step,
            start_us=built.interval_us[0],
            end_us=built.interval_us[1],
            calls=selected.of.completed,
            anomalies=anomalies,
            severity_us=float(lost_us.sum()),
            highest_score=float(score.max(initial=0.0)),
            **dict(zip(_SPENT, (max(0, computing_us - gpu_us), *other_us), strict=True)),
        )

    def follow(self, first_step: int, totals: StreamHealth | None) -> None:
        """Begin at a step, after a process of which only the totals are left."""
        self._stacks.last_step = first_step - 1
        if totals is not None:
            self._totals = _Totals(
                totals.steps,
                totals.rows,
                totals.size_bytes,
                totals.largest_step_bytes,
                totals.calls,
                totals.anomalies,
            )
            self._stacks.gap_steps = totals.gap_steps
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
        return self._totals.steps

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
        rows, kept = busiest(self._paths.times())
        threads = self._by_thread.unequal(rows["function"], kept, self._processor_threads())
        timers, at = np.unique(rows["function"][1:], return_inverse=True)
        rows["function"][1:] = at
        names = [self._names.timer_name(timer) for timer in timers.tolist()]
        return PathTimes(names, rows.tobytes(), threads.tobytes())

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
            steps=self._totals.steps,
            rows=self._totals.rows,
            size_bytes=self._totals.size_bytes,
            calls=self._totals.calls,
            anomalies=self._totals.anomalies,
            gap_steps=self._stacks.gap_steps,
            losses=dict(Counter(self._earlier_losses) + Counter(self._stacks.lost() | self._launches.lost())),
            largest_step_bytes=self._totals.largest_step_bytes,
            open_calls=self._stacks.open_calls,
            source=parse_census(said) or self._source,
            threads=threads,
            thread_us=thread_us,
            gap_us=self._stacks.gap_us,
            gpu_us=self._totals.gpu_us,
        )

    def _thread_times(self) -> tuple[int, int]:
        """Return the number of threads that are no GPU's, and their time from first to last events."""
        threads = self._processor_threads()
        first_us, last_us = (threads[name].astype(np.int64) for name in ("first_time", "last_time"))
        spans_us = np.maximum(last_us - first_us, 0)[first_us > 0]
        return len(spans_us), int(spans_us.sum())

    def _processor_threads(self) -> Rows:
        """Return the ``THREAD`` rows of threads that are no GPU's; those of GPUs have no id and no time."""
        threads = self._stacks.threads[: self._stacks.thread_count].copy()
        is_gpu = np.zeros(len(threads), np.bool_)
        is_gpu[: len(self._launches.is_gpu)] = self._launches.is_gpu[: len(threads)] != 0
        threads["id"][is_gpu] = NONE
        threads["first_time"][is_gpu] = 0
        return threads


def _by_name(functions: Int32Array, names: StreamNames) -> dict[str, int]:
    """Return how often each function occurs."""
    numbers = Counter(functions.tolist()) if len(functions) else {}
    return {names.timer_name(function): number for function, number in numbers.items()}


class StreamIdentity(msgspec.Struct, frozen=True):
    """Identity of a stream, which is part of every record."""

    program: int
    rank: int
    node: str
