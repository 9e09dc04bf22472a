"""Profiles by which runs are compared, and which function of one run is which of the other."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import numpy as np

from chimbuko.causes.wording import Bound
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS
from chimbuko.core.calls.functionnames import parse_name
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import stored_columns
from chimbuko.observe.namespaces.analyses.metricfinding import FindingKey
from chimbuko.provenance.compare.levels import Level, level_of, level_of_all, level_of_mean
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.marks import MarkState
from chimbuko.provenance.incidents.metricfindings import metric_findings
from chimbuko.provenance.query.nodelist import all_thread_times
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.protocol.messages import FunctionStatistics

FunctionKey = tuple[str, str]
"""Names of program and function."""


def pair_functions(
    before: Iterable[FunctionKey], after: Iterable[FunctionKey]
) -> dict[FunctionKey, FunctionKey]:
    """Return which function of the run after each function of the run before is.

    Those of one name and file are taken in the order of their lines, where both runs have as many of them: so
    all of a file may have moved. Of the others those of the same name in full are one, then those of the same
    name and module, then those of the same name alone, where that tells them apart. Where each run has one
    program that the other has not, they are taken for the same one.
    """
    left, right = set(before), set(after)
    programs = _pair_programs({program for program, _ in left}, {program for program, _ in right})
    paired: dict[FunctionKey, FunctionKey] = {}
    for identity in (_in_file, str, _in_module, _alone):
        others = _groups(right - set(paired.values()), identity, {})
        for key, ours in _groups(left - paired.keys(), identity, programs).items():
            theirs = others.get(key, [])
            if len(ours) == len(theirs) and (len(ours) == 1 or identity is _in_file):
                paired |= zip(sorted(ours, key=_place), sorted(theirs, key=_place), strict=True)
    return paired


def _groups(
    keys: Iterable[FunctionKey], identity: Callable[[str], Hashable], programs: Mapping[str, str]
) -> dict[Hashable, list[FunctionKey]]:
    groups: dict[Hashable, list[FunctionKey]] = defaultdict(list)
    for program, name in keys:
        groups[programs.get(program, program), identity(name)].append((program, name))
    return groups


def _in_file(name: str) -> Hashable:
    one = parse_name(name)
    return one.function, one.file.rpartition("/")[2] or one.module


def _in_module(name: str) -> Hashable:
    one = parse_name(name)
    return one.function, one.module.rpartition(".")[2]


def _alone(name: str) -> Hashable:
    return parse_name(name).function


def _place(key: FunctionKey) -> tuple[str, int, str]:
    one = parse_name(key[1])
    return one.file, one.line, key[1]


def _pair_programs(before: set[str], after: set[str]) -> dict[str, str]:
    only_before, only_after = before - after, after - before
    if len(only_before) == len(only_after) == 1:
        return {only_before.pop(): only_after.pop()}
    return {}


@dataclass(frozen=True)
class OfRuns:
    """Figures of one run, or of several in their middle (``profilemerging.py``)."""

    of_runs: tuple[Self, ...] = field(default=(), kw_only=True)
    """Figures of each run where there are several."""

    def each(self) -> tuple[Self, ...]:
        """Return the figures of each run."""
        return self.of_runs or (self,)


@dataclass(frozen=True)
class Spent:
    """All calls of a function, of which single ones may not count for the detector, and their time."""

    calls: float
    us: float


@dataclass(frozen=True)
class FunctionProfile(OfRuns):
    """Profile of one function over all ranks."""

    program: str
    name: str
    calls: int
    anomalies: int
    severity_us: float
    """Time lost in anomalies."""
    mean_us: float
    """Mean exclusive runtime, anomalies included."""
    level: Level | None
    """Level of the runtime that the run judges by; None if nothing is known of it."""
    level_of_all: Level | None = None
    """Level of the exclusive runtime, rare long calls included."""
    counts: Float64Array | None = None
    """Calls by bucket of ``chimbuko.core.kernels.buckets`` over the whole run, f8[BUCKETS]."""
    all_calls: Spent | None = None
    """All calls, first and open ones included; None if no others than those above are known."""

    @property
    def spent(self) -> Spent:
        """All calls, as far as they are known."""
        return self.all_calls or Spent(self.calls, self.calls * self.mean_us)


@dataclass(frozen=True)
class PathProfile(OfRuns):
    """Profile of one call path over all ranks."""

    program: str
    functions: tuple[str, ...]
    """Functions of the path, outermost first."""
    calls: int
    mean_us: float
    """Mean exclusive runtime."""
    level: Level | None


@dataclass(frozen=True)
class RankProfile(OfRuns):
    """Profile of one rank."""

    program: str
    rank: int
    calls: int
    anomalies: int
    severity_us: float


class Findings(msgspec.Struct, frozen=True):
    """Number and cost of the findings of one kind."""

    number: int
    cost_us: float
    """Core time that they lost on all ranks."""
    bound: Bound = Bound.EXACT
    """How sure that time is."""


@dataclass(frozen=True)
class RunProfile(OfRuns):
    """Profile of a run as a whole."""

    id: str
    name: str
    metric: str
    """Runtime that is judged, and compared: ``exclusive`` or ``inclusive``."""
    duration_us: int
    """Time from the first analysed step to the end of the last."""
    functions: list[FunctionProfile]
    paths: list[PathProfile]
    ranks: list[RankProfile]
    incidents: Findings
    recurring: Findings
    metrics: Mapping[FindingKey, str] = field(default_factory=dict)
    """Findings in quantities that the programs publish, in words."""
    ranks_us: float = 0.0
    """Time of all ranks together."""
    waited: float = 0.0
    """Share of the time in which threads could have run that they waited for a core; 0 if it is not known."""

    @property
    def total_us(self) -> float:
        """Time that is divided among functions: that of all ranks, or of all calls where that is more."""
        return max(self.ranks_us, sum(one.spent.us for one in self.functions))


def read_profile(
    provenance: Provenance, progress: Callable[[float, str], None] = lambda share, text: None
) -> RunProfile:
    """Read all that a comparison needs of a run.

    Parameters
    ----------
    progress
        Called with the share that is done, and with what is read now.

    Raises
    ------
    ChimbukoError
        The store cannot be read, or does not hold the run.
    """
    info = provenance.run()
    programs = provenance.programs()
    progress(0.0, f"Reading functions of {info.name}")
    functions = _functions(provenance, programs, info.config)
    progress(0.6, f"Reading call paths of {info.name}")
    paths = _paths(provenance, programs, functions)
    progress(0.8, f"Reading ranks of {info.name}")
    ranks = _ranks(provenance, programs)
    span = provenance.steps.time_range()
    duration_us = span[1] - span[0] if span else 0
    incidents = Incidents(provenance.reader)
    again = [one for one in incidents.recurrences() if one.mark != MarkState.IGNORED]
    listed = incidents.page(limit=1, with_short=True, with_ignored=False)
    return RunProfile(
        info.id,
        info.name,
        info.config.metric,
        duration_us,
        functions,
        paths,
        ranks,
        Findings(listed.total, listed.cost_us, listed.bound),
        Findings(len(again), sum(one.recurrence.cost_us for one in again)),
        {one.finding.key: one.sentence for one in metric_findings(provenance.reader)},
        float(sum(stream.thread_us for stream in provenance.health())),
        all_thread_times(provenance.reader).waited,
    )


def _functions(
    provenance: Provenance, programs: dict[int, str], config: AnalysisConfig
) -> list[FunctionProfile]:
    counted, spent = _counted(provenance, config.detector), _spent(provenance)
    known = [
        replace(
            _function(programs.get(one.program, str(one.program)), one, counted.get(key), config.metric),
            all_calls=_at_least(spent.pop(key, None), one),
        )
        for one in provenance.function_statistics()
        for key in [(one.program, one.name)]
    ]
    return known + [
        FunctionProfile(
            programs.get(program, str(program)), name, 0, 0, 0.0, one.us / one.calls, None, all_calls=one
        )
        for (program, name), one in spent.items()
    ]


def _spent(provenance: Provenance) -> dict[tuple[int, str], Spent]:
    """Return all calls that the store knows of, by program and name of the function."""
    times = provenance.function_times().items()
    return {key: Spent(one.calls, one.exclusive_us) for key, one in times if one.calls}


def _at_least(spent: Spent | None, found: FunctionStatistics) -> Spent | None:
    """Return all calls of a function; None if its paths were too many for all of them to be kept."""
    return spent if spent is not None and spent.calls >= found.calls else None


def _counted(provenance: Provenance, detector: str) -> dict[tuple[int, str], Float64Array]:
    """Return the counts of calls by bucket at some times, for each function of which they are stored."""
    found = {}
    for key, kept in itertools.groupby(provenance.models.all(), lambda model: (model.program, model.name)):
        rows = [stored_columns(detector, model.row) for model in kept]
        counted = np.array([columns["counted"] for columns in rows if "counted" in columns])
        if len(counted) and counted[-1].any():
            found[key] = counted
    return found


def _function(
    program: str, found: FunctionStatistics, counted: Float64Array | None, metric: str
) -> FunctionProfile:
    # The excess of anomalies is left out: one can be as long as a million calls.
    ordinary_us = found.exclusive_mean_us - found.severity_us / max(1, found.calls)
    by_mean = level_of_mean(found.calls, ordinary_us, found.exclusive_stddev_us)
    # Buckets are of the runtime that is judged.
    course = counted if counted is not None and metric == "exclusive" else np.empty((0, BUCKETS))
    return FunctionProfile(
        program,
        found.name,
        found.calls,
        found.anomalies,
        found.severity_us,
        found.exclusive_mean_us,
        by_mean if counted is None else level_of(counted),
        level_of_all(course, found.calls, found.exclusive_mean_us, found.exclusive_stddev_us),
        None if counted is None else counted[-1],
    )


def _paths(
    provenance: Provenance, programs: dict[int, str], functions: list[FunctionProfile]
) -> list[PathProfile]:
    levels = {(function.program, function.name): function.level for function in functions}
    return [
        PathProfile(
            programs.get(path.program, str(path.program)),
            tuple(path.functions),
            path.calls,
            path.exclusive_mean_us,
            level_of_mean(
                path.calls,
                path.exclusive_mean_us,
                path.exclusive_stddev_us,
                levels.get((programs.get(path.program, str(path.program)), path.functions[-1])),
            ),
        )
        for path in provenance.path_statistics()
        if path.calls
    ]


def _ranks(provenance: Provenance, programs: dict[int, str]) -> list[RankProfile]:
    severity_us = {(rank.program, rank.rank): rank.severity_us for rank in provenance.steps.rank_statistics()}
    return [
        RankProfile(
            programs.get(stream.program, str(stream.program)),
            stream.rank,
            stream.calls,
            stream.anomalies,
            severity_us.get((stream.program, stream.rank), 0.0),
        )
        for stream in provenance.health()
    ]
