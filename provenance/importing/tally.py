"""Sums over imported records by step, stream and function; unrecorded calls are not in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from chimbuko.core.calls.record import CallRecord, StepCount, StreamHealth
from chimbuko.core.calls.schema import Label
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.importing.cppmodels import NOTHING, FunctionProfile, Learned, RunStatistics
from chimbuko.provenance.importing.cpprecords import ForeignCall
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics


@dataclass
class _Stream:
    node: str = ""
    steps: set[int] = field(default_factory=set)
    calls: int = 0
    anomalies: int = 0


@dataclass
class _Function:
    calls: int = 0
    anomalies: int = 0
    severity_us: float = 0.0
    flagged: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Number of abnormal calls by rank and step."""
    model: bytes = b""
    version: int = 0
    learned: Moments = NOTHING
    """Moments from the record that reports most calls."""


class ImportTally:
    """Adds up imported calls; its size follows steps, streams and functions, not calls.

    Parameters
    ----------
    detector, metric
        Detector and metric of the run.
    """

    def __init__(self, detector: str, metric: str) -> None:
        self._detector = detector
        self._metric = metric
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._steps: dict[tuple[int, int, int], StepCount] = {}
        self._functions: dict[tuple[int, str], _Function] = {}
        self.first_us = 0
        self.last_us = 0
        self.anomalies = 0
        self.normal_calls = 0

    def name_node(self, program: int, rank: int, node: str) -> None:
        """Note on which node a rank ran."""
        self._streams.setdefault((program, rank), _Stream()).node = node

    def add(self, call: ForeignCall) -> tuple[CallRecord, list[FunctionModel]]:
        """Add a call, and return its record, which names its model, and that model where it is new."""
        record = call.record
        is_anomaly = record.label is Label.ANOMALY
        self.anomalies += is_anomaly
        self.normal_calls += not is_anomaly
        stream = self._streams.setdefault((record.program, record.rank), _Stream())
        stream.node = record.node or stream.node
        stream.calls += 1
        stream.anomalies += is_anomaly
        stream.steps.add(record.step)
        function = self._functions.setdefault((record.program, record.function), _Function())
        function.calls += 1
        function.anomalies += is_anomaly
        if is_anomaly:
            function.severity_us += record.severity_us
            function.flagged[record.rank, record.step] += 1
        self._add_step(record, is_anomaly)
        models = [] if call.learned is None else self._add_model(record, call.learned, function)
        version = function.version if call.learned else 0
        return msgspec.structs.replace(record, node=stream.node, model_version=version), models

    def health(self, program: int, rank: int) -> StreamHealth:
        """Return the health of a stream, as far as records say."""
        stream = self._streams.get((program, rank)) or _Stream()
        steps, calls, anomalies = len(stream.steps), stream.calls, stream.anomalies
        return StreamHealth(program, rank, stream.node, "ended", steps, 0, 0, calls, anomalies, 0, {})

    @property
    def first_node(self) -> str:
        """Return the node of the first stream; empty if none is known."""
        return next((stream.node for stream in self._streams.values()), "")

    def steps(self) -> list[StepCount]:
        """Return the steps that calls are recorded of."""
        return list(self._steps.values())

    def function_statistics(self, profiles: Iterable[FunctionProfile]) -> list[FunctionStatistics]:
        """Return statistics of each function, from its profile if that has runtimes, else from its calls."""
        own = {place: self._of_records(*place, function) for place, function in self._functions.items()}
        reported = {
            (profile.app, profile.fname): _of_profile(profile)
            for profile in profiles
            if profile.runtime_profile is not None or (profile.app, profile.fname) not in own
        }
        return [self._with_steps(place, row) for place, row in (own | reported).items()]

    def _with_steps(self, place: tuple[int, str], row: FunctionStatistics) -> FunctionStatistics:
        """Add what is known of the function's abnormal calls by step, if records report all of them."""
        function = self._functions.get(place)
        if function is None or function.anomalies != row.anomalies:
            return row
        counts = function.flagged.values()
        return msgspec.structs.replace(
            row,
            flagged_steps=len(counts),
            flagged_squares=float(sum(count**2 for count in counts)),
            flagged_cubes=float(sum(count**3 for count in counts)),
            flagged_fourths=float(sum(count**4 for count in counts)),
            fewest_flagged=min(counts, default=0),
            most_flagged=max(counts, default=0),
        )

    def version_after(self, program: int, function: str) -> int:
        """Return a version for a function's model that is newer than all those of its calls."""
        known = self._functions.get((program, function))
        return 1 if known is None else known.version + 1

    def _add_step(self, record: CallRecord, is_anomaly: bool) -> None:
        place = record.program, record.rank, record.step
        start_us = record.step_start_us or record.entry_us
        end_us = max(record.step_end_us or record.exit_us, start_us)
        step = self._steps.get(place) or StepCount(*place, start_us, end_us, 0, 0, 0.0)
        self._steps[place] = StepCount(
            *place,
            min(step.start_us, start_us),
            max(step.end_us, end_us),
            step.calls + 1,
            step.anomalies + is_anomaly,
            step.severity_us + (record.severity_us if is_anomaly else 0.0),
            max(step.highest_score, record.score if is_anomaly else 0.0),
        )
        self.first_us = min(self.first_us or start_us, start_us)
        self.last_us = max(self.last_us, end_us)

    def _add_model(self, record: CallRecord, learned: Learned, function: _Function) -> list[FunctionModel]:
        if learned.moments.n > function.learned.n:
            function.learned = learned.moments
        row = learned.row(self._detector, self._metric).tobytes()
        if row == function.model:
            return []
        function.model = row
        function.version += 1
        return [FunctionModel(function.version, record.program, record.function, row)]

    def _of_records(self, program: int, name: str, function: _Function) -> FunctionStatistics:
        known, unknown = function.learned, NOTHING
        exclusive, inclusive = (known, unknown) if self._metric == "exclusive" else (unknown, known)
        calls = max(function.calls, int(known.n))
        flagged = function.anomalies, function.severity_us
        return _statistics(program, name, calls, flagged, exclusive, inclusive)


def _of_profile(profile: FunctionProfile) -> FunctionStatistics:
    runtimes, flags = profile.runtime_profile, profile.anomaly_metrics
    exclusive = runtimes.exclusive_runtime.moments() if runtimes else NOTHING
    inclusive = runtimes.inclusive_runtime.moments() if runtimes else NOTHING
    flagged = (round(_total(flags.anomaly_count)), _total(flags.severity)) if flags else (0, 0.0)
    return _statistics(profile.app, profile.fname, int(exclusive.n), flagged, exclusive, inclusive)


def _total(statistics: RunStatistics) -> float:
    return statistics.count * (statistics.mean or 0.0)


def _statistics(
    program: int,
    name: str,
    calls: int,
    flagged: tuple[int, float],
    exclusive: Moments,
    inclusive: Moments,
) -> FunctionStatistics:
    """Return statistics of a function in which what is not known is 0."""
    return FunctionStatistics(
        program,
        name,
        calls,
        *flagged,
        exclusive.mean,
        exclusive.stddev,
        exclusive.minimum if exclusive.n else 0.0,
        exclusive.maximum if exclusive.n else 0.0,
        inclusive.mean,
        inclusive.maximum if inclusive.n else 0.0,
    )
