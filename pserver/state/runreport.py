"""Final report of a run, as one JSON file in gzip: everything the server knows at the end.

Names are those of Chimbuko's own final records where it has them. All times are in µs.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import contents, write_atomically
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.core.unpacking import unpacked
from chimbuko.pserver.state.functions import Functions
from chimbuko.runtime.protocol.messages import Frame, PathStatistics, RankStatistics
from chimbuko.runtime.protocol.telemetry import FLAGGED, OTHERS, TRAFFIC, ProgramCounter, SlowRank

REPORT_VERSION = 1

Numbered = TypeVar("Numbered", "FunctionStats", "RankFunctionAnomalies")


class RunStats(msgspec.Struct, frozen=True):
    """Moments of a set of values."""

    count: int
    accumulate: float
    minimum: float
    maximum: float
    mean: float
    stddev: float
    skewness: float
    kurtosis: float

    @classmethod
    def of(cls, moments: Moments) -> RunStats:
        """Return the statistics of these moments; without values all are 0."""
        if not moments.n:
            return cls(0, *[0.0] * 7)
        return cls(
            round(moments.n),
            *(moments.total, moments.minimum, moments.maximum, moments.mean),
            *(moments.stddev, moments.skewness, moments.kurtosis),
        )


class AnomalyMetrics(msgspec.Struct, frozen=True):
    """Flagged calls of a function in one step or rank."""

    anomaly_count: int
    severity: float
    """Time lost in µs, against what was expected of the function."""
    score: float
    """Highest score of the calls."""


class RuntimeProfile(msgspec.Struct, frozen=True):
    """Runtimes of a function, in µs."""

    exclusive_runtime: RunStats
    inclusive_runtime: RunStats


class FunctionStats(msgspec.Struct, frozen=True):
    """Statistics of one function over all ranks."""

    app: int
    fid: int
    fname: str
    runtime_profile: RuntimeProfile
    anomaly_metrics: AnomalyMetrics | None


class RankFunctionAnomalies(msgspec.Struct, frozen=True):
    """Flagged calls of one function on one rank."""

    app: int
    rank: int
    fid: int
    fname: str
    anomaly_metrics: AnomalyMetrics


class RankAnomalies(msgspec.Struct, frozen=True):
    """Flagged calls per step of one rank, over all its steps."""

    key: str
    """Program number and rank as ``app:rank``."""
    stats: RunStats
    severity: float


class CounterStats(msgspec.Struct, frozen=True):
    """Statistics of one counter over all ranks."""

    app: int
    counter: str
    ranks: int
    stats: RunStats


class RankTraffic(msgspec.Struct, frozen=True):
    """Messages that one rank sent to another."""

    app: int
    source: int
    destination: int | None
    """Receiving rank; None for all ranks that have no row of their own."""
    count: int
    bytes: int


class PathStats(msgspec.Struct, frozen=True):
    """Calls on one call path over all ranks; times in µs."""

    app: int
    path: list[str]
    """Names of the functions, outermost first."""
    calls: int
    """Number of calls that count for the detector, and of which the runtimes are."""
    exclusive_runtime: dict[str, float]
    inclusive_runtime: dict[str, float]
    begun: int = 0
    """Number of all calls, also of first ones and of open ones."""
    spent_us: float = 0.0
    """Exclusive time of all these calls."""


class Analysis(msgspec.Struct, frozen=True):
    """Health of the analysis itself: its streams, its agents and its losses."""

    streams: list[dict[str, Any]]
    """Fields of ``StreamHealth`` of each stream."""
    agents: dict[str, dict[str, Any]]
    """Fields of ``AgentFigures`` of each agent."""
    lost_deltas: int
    """Number of messages that were lost with their agents."""


class Report(msgspec.Struct, frozen=True):
    """Final report of a run."""

    version: int
    programs: dict[int, str]
    model: str
    """Name of the file with the final model; empty if none was saved."""
    func_stats: list[FunctionStats]
    anomaly_stats: list[RankAnomalies]
    anomaly_metrics: list[RankFunctionAnomalies]
    path_stats: list[PathStats]
    counter_stats: list[CounterStats]
    messages: list[RankTraffic]
    slow_ranks: list[SlowRank]
    analysis: Analysis


def make_report(
    snapshot: Frame,
    paths: Sequence[PathStatistics],
    functions: Functions,
    programs: Mapping[int, str],
    model: str,
    lost_deltas: int,
) -> Report:
    """Make the report from all that the server knows."""
    telemetry = snapshot.telemetry
    return Report(
        version=REPORT_VERSION,
        programs=dict(programs),
        model=model,
        func_stats=_functions(functions),
        anomaly_stats=[_rank(rank) for rank in snapshot.ranks],
        anomaly_metrics=_flagged(np.frombuffer(telemetry.flagged, FLAGGED).tolist(), functions),
        path_stats=[_path(path) for path in paths],
        counter_stats=[_counter(counter) for counter in telemetry.counters],
        messages=[
            RankTraffic(app, source, None if to == OTHERS else to, count, size_bytes)
            for app, source, to, count, size_bytes in np.frombuffer(telemetry.traffic, TRAFFIC).tolist()
        ],
        slow_ranks=telemetry.slow_ranks or [],
        analysis=Analysis(
            [_named(health) for health in snapshot.health],
            {agent: _named(figures) for agent, figures in telemetry.agents.items()},
            lost_deltas,
        ),
    )


def joined_reports(reports: Sequence[Report], model: str) -> Report:
    """Join the reports of the parts of a parameter server; functions are numbered one part after another.

    Parameters
    ----------
    model
        Name of the file with the model of all of them.
    """
    functions: list[FunctionStats] = []
    flagged: list[RankFunctionAnomalies] = []
    for report in reports:
        first = max((function.fid for function in functions), default=-1) + 1
        functions += [_moved(function, first) for function in report.func_stats]
        flagged += [_moved(one, first) for one in report.anomaly_metrics]
    slow = [rank for report in reports for rank in report.slow_ranks]
    return Report(
        version=REPORT_VERSION,
        programs=reports[0].programs,
        model=model,
        func_stats=functions,
        anomaly_stats=[rank for report in reports for rank in report.anomaly_stats],
        anomaly_metrics=flagged,
        path_stats=[path for report in reports for path in report.path_stats],
        counter_stats=[counter for report in reports for counter in report.counter_stats],
        messages=[pair for report in reports for pair in report.messages],
        slow_ranks=sorted(slow, key=lambda rank: -rank.lost_us),
        analysis=Analysis(
            [stream for report in reports for stream in report.analysis.streams],
            {name: figures for report in reports for name, figures in report.analysis.agents.items()},
            sum(report.analysis.lost_deltas for report in reports),
        ),
    )


def read_report(path: Path) -> Report:
    """Read a report.

    Raises
    ------
    OSError, StoreError, msgspec.MsgspecError
        It is not there, or damaged.
    """
    return msgspec.json.decode(unpacked(contents(path)), type=Report)


_LEVEL = 4
"""Level of gzip: 9, the usual one, takes three times as long for 15 % less."""


def write_report(path: Path, report: Report) -> None:
    """Write a report atomically.

    Raises
    ------
    ServiceError
        It cannot be written.
    """
    try:
        # Names of call paths repeat: of 2,500 paths 1.8 MB of indented text become 0.08 MB.
        write_atomically(path, gzip.compress(msgspec.json.encode(report), _LEVEL, mtime=0))
    except OSError as error:
        raise ServiceError(f"{path}: the report cannot be written ({error.strerror})") from error


def _named(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct by name, though it is encoded as an array."""
    fields = msgspec.structs.asdict(struct)
    return {
        name: _named(value) if isinstance(value, msgspec.Struct) else value for name, value in fields.items()
    }


def _functions(functions: Functions) -> list[FunctionStats]:
    called = functions.called()
    found = []
    for number, row in zip(called.tolist(), functions.rows(called), strict=True):
        name = functions.names[number]
        flags = AnomalyMetrics(*_flags(row))
        profile = RuntimeProfile(*(_stats(row, column) for column in ("exclusive_us", "inclusive_us")))
        found.append(
            FunctionStats(name.program, number, name.name, profile, flags if flags.anomaly_count else None)
        )
    return found


def _moved(one: Numbered, first: int) -> Numbered:
    return msgspec.structs.replace(one, fid=first + one.fid)


def _flags(row: Float64Array) -> tuple[int, float, float]:
    anomalies, severity_us, score = (
        row[PROFILE.slices[name].start] for name in ("anomalies", "severity_us", "highest_score")
    )
    return int(anomalies), float(severity_us), float(score)


def _stats(row: Float64Array, column: str) -> RunStats:
    return RunStats.of(Moments.from_row(row[PROFILE.slices[column]]))


def _flagged(rows: Iterable[tuple[Any, ...]], functions: Functions) -> list[RankFunctionAnomalies]:
    return [
        RankFunctionAnomalies(app, rank, fid, functions.names[fid].name, AnomalyMetrics(*metrics))
        for app, rank, fid, *metrics in rows
    ]


def _rank(rank: RankStatistics) -> RankAnomalies:
    stats = RunStats(
        rank.steps,
        *(rank.total, rank.minimum, rank.maximum, rank.mean, rank.stddev, rank.skewness, rank.kurtosis),
    )
    return RankAnomalies(f"{rank.program}:{rank.rank}", stats, rank.severity_us)


def _path(path: PathStatistics) -> PathStats:
    exclusive, inclusive = (
        {name: getattr(path, f"{metric}_{name}_us") for name in ("mean", "stddev", "minimum", "maximum")}
        for metric in ("exclusive", "inclusive")
    )
    return PathStats(
        path.program, path.functions, path.calls, exclusive, inclusive, path.all_calls, path.total_us
    )


def _counter(counter: ProgramCounter) -> CounterStats:
    name, *moments = msgspec.structs.astuple(counter.statistics)
    return CounterStats(counter.program, name, counter.ranks, RunStats.of(Moments(*moments)))
