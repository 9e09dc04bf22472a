"""Budget of a stored run, also of one that goes on: of the whole, and over its steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from sqlalchemy import BigInteger, Text, case, cast, func, or_, select

from chimbuko.causes.kinds.heldup import WAITED_FOR_CORE
from chimbuko.causes.part import ANALYSIS
from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.arrays import Float64Array, RankKey
from chimbuko.core.config import least_calls
from chimbuko.provenance.incidents.budget import Budget, Lost, Sampled, divide, make_budget
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.nodelist import DatedTimes, all_thread_times, dated_thread_times, sampled_nodes
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.query.steps import StepSum
from chimbuko.provenance.store.coarserlevels import LEVELS
from chimbuko.provenance.store.tables import NEVER_US, STREAM_HEALTH

LEAST_WATCHED = 0.3
"""Least share of a rank's time that samples have to cover: they are divided like the rest."""

IMBALANCES = RecurrenceKind.SLOW_RANKS, RecurrenceKind.SLOW_THREADS, RecurrenceKind.LATE_THREADS


def run_budget(provenance: Provenance) -> Budget:
    """Return where the time of a run went.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    times_us: dict[str, float] = {}
    slept_us: defaultdict[str, float] = defaultdict(float)
    counted: Counter[str] = Counter()
    for (_, name), time in provenance.function_times().items():
        times_us[name] = times_us.get(name, 0.0) + time.exclusive_us
        if time.slept_us is not None:
            slept_us[name] += time.slept_us
        counted[name] += time.counted - time.calls
    for one in provenance.function_statistics():
        counted[one.name] += one.calls
    least = least_calls(provenance.run().config.detector)
    streams, found = _streams(provenance), Incidents(provenance.reader)
    recurring = [one.recurrence for one in found.recurrences()]
    # Other ranks show what few calls do not.
    judged = {name for one in recurring for name in one.functions}
    incidents = found.page(limit=0)
    begin_us, end_us = provenance.steps.time_range() or (0, 0)
    return make_budget(
        wall_us=end_us - begin_us,
        threads=streams.threads,
        total_us=streams.thread_us,
        times_us=times_us,
        gpu_calls_us=streams.gpu_us,
        sampled=_sampled(provenance, (end_us - begin_us) * streams.number),
        lost=_lost(found, incidents.cost_us, recurring),
        not_judged=[name for name, calls in counted.items() if calls < least and name not in judged],
        slept_us=slept_us,
        is_whole=streams.is_whole,
        incidents_bound=incidents.bound,
    )


class _Streams(msgspec.Struct, frozen=True):
    """Number of streams, and what of them adds up."""

    number: int
    threads: int
    thread_us: int
    gpu_us: int
    is_whole: bool


def _streams(provenance: Provenance) -> _Streams:
    # Added up by the store: 100,000 streams take a second to read.
    stream = STREAM_HEALTH.c
    is_lossy = or_(stream.gap_steps > 0, cast(stream.losses, Text) != "{}")
    counts = (case((is_lossy, 1), else_=0), stream.threads, stream.thread_us, stream.gpu_us)
    sums = (cast(func.coalesce(func.sum(of), 0), BigInteger) for of in counts)
    statement = select(func.count(), *sums).where(stream.run == provenance.reader.run)
    number, lossy, threads, thread_us, gpu_us = provenance.reader.rows(statement)[0]
    return _Streams(number, threads, thread_us, gpu_us, is_whole=not lossy)


def _sampled(provenance: Provenance, ranks_us: float) -> Sampled | None:
    found = all_thread_times(provenance.reader)
    if not found.watched_us or found.watched_us < LEAST_WATCHED * ranks_us:
        return None
    return Sampled(found.watched_us, found.ran_us, found.waited_us)


def _lost(found: Incidents, incidents_us: float, recurring: Sequence[Recurrence]) -> Lost:
    analysis_us = sum(
        one.cost_us for one in found.of_kind(WAITED_FOR_CORE.id) if one.parts and one.parts[0].by == ANALYSIS
    )
    # What ranks stand in after their last event is no part of the time that is divided here.
    costs = [one for one in recurring if one.kind is not RecurrenceKind.DEADLOCK]
    imbalance_us = sum(one.cost_us for one in costs if one.kind in IMBALANCES)
    recurring_us = sum(one.cost_us for one in costs) - imbalance_us
    return Lost(incidents_us - analysis_us, recurring_us, imbalance_us, analysis_us)


MOST_BARS = 480
"""Number of stretches of steps above which longer ones are taken: a bar takes two pixels."""


class StepTime(msgspec.Struct, frozen=True, array_like=True):
    """Time of threads in some consecutive steps, divided by what they did."""

    step: int
    """First of the steps."""
    start_us: int
    """Start of the first of them on any rank, in µs since the epoch."""
    end_us: int
    analysed: int
    """Number of them that were analysed, added up over ranks."""
    anomalies: int
    severity_us: float
    computing_us: float
    mpi_us: float
    io_us: float
    gpu_us: float
    asleep_us: float
    """Time asleep, and of coroutines that await; without samples of nodes the rest of it is in the others."""
    waiting_us: float
    """Time of waits for a core; without samples of nodes it is in the others."""
    is_sampled: bool = False
    """Whether samples of nodes tell of most of this time what slept and waited."""


class StepTimes(msgspec.Struct, frozen=True):
    """Times of a run's steps."""

    length: int
    """Number of steps that are taken together."""
    ranks: int
    """Number of ranks whose time is added up."""
    is_sampled: bool
    """Whether samples of nodes say how long threads slept, and waited for a core."""
    times: list[StepTime]


def step_times(
    provenance: Provenance, ranks: Collection[RankKey] = (), steps: tuple[int, int] | None = None
) -> StepTimes:
    """Return the time of threads step by step, or by as many steps as make a few hundred stretches.

    Parameters
    ----------
    ranks
        Ranks whose threads count; without any those of all.
    steps
        First and last step wanted; None for all.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    level, sums = _summed(provenance, ranks, steps)
    found: defaultdict[int, list[StepSum]] = defaultdict(list)
    for one in sums:
        if one.start_us < NEVER_US:
            found[one.step].append(one)
    sampled = _SampledTimes(provenance, ranks)
    number = len(ranks) or _streams(provenance).number
    times = [_together(step, found[step], sampled, number) for step in sorted(found)]
    return StepTimes(8**level, number, sampled.is_known, times)


def _summed(
    provenance: Provenance, ranks: Collection[RankKey], steps: tuple[int, int] | None
) -> tuple[int, list[StepSum]]:
    """Return the finest level with few enough stretches, and the sums of that level."""
    level, of_all = LEVELS[-1], provenance.steps.sums(LEVELS[-1], steps=steps)
    while level:
        finer = provenance.steps.sums(level - 1, steps=steps)
        if len({one.step for one in finer}) > MOST_BARS:
            break
        level, of_all = level - 1, finer
    if not ranks:
        return level, of_all
    sums = provenance.steps.sums(level, list(ranks))
    if steps is not None:
        sums = [one for one in sums if steps[0] < one.step + one.length and one.step <= steps[1]]
    return level, sums


def _together(step: int, sums: Sequence[StepSum], sampled: _SampledTimes, ranks: int) -> StepTime:
    start_us, end_us = min(one.start_us for one in sums), max(one.end_us for one in sums)
    spent = {
        "computing_us": float(sum(one.computing_us for one in sums)),
        "mpi_us": float(sum(one.mpi_us for one in sums)),
        "io_us": float(sum(one.io_us for one in sums)),
        "gpu_us": float(sum(one.gpu_us for one in sums)),
        "asleep_us": float(sum(one.awaiting_us for one in sums)),
    }
    within = sampled.between(start_us, end_us)
    is_sampled = within.watched_us >= max(1.0, LEAST_WATCHED * (end_us - start_us) * ranks)
    if is_sampled:
        spent = divide(spent, within)
    return StepTime(
        step,
        start_us,
        end_us,
        sum(one.steps for one in sums),
        sum(one.anomalies for one in sums),
        sum(one.severity_us for one in sums),
        **{"waiting_us": 0.0, **spent},
        is_sampled=is_sampled,
    )


class _SampledTimes:
    """Time of recorded threads on all sampled nodes, from one moment to another."""

    def __init__(self, provenance: Provenance, ranks: Collection[RankKey]) -> None:
        reader = provenance.reader
        nodes = [dated_thread_times(reader, node.name, ranks) for node in sampled_nodes(reader)]
        self._curves = [_curve(dated) for dated in nodes if dated]
        self.is_known = bool(self._curves)

    def between(self, begin_us: int, end_us: int) -> Sampled:
        """Return the times of an interval: what a sum of samples says is spread evenly over its time."""
        total = np.zeros(3)
        for times_us, values in self._curves:
            for at in range(3):
                begin, end = np.interp((begin_us, end_us), times_us, values[:, at])
                total[at] += end - begin
        return Sampled(*total.tolist())


def _curve(dated: Sequence[DatedTimes]) -> tuple[Float64Array, Float64Array]:
    """Return moments in µs, and the times of all threads up to each, f8[moments, 3]."""
    times_us: list[float] = []
    values: list[tuple[float, ...]] = []
    total = (0.0, 0.0, 0.0)
    for begin_us, end_us, times in dated:
        times_us += [begin_us, max(begin_us, end_us)]
        values.append(total)
        total = (total[0] + times[0], total[1] + times[1], total[2] + times[2])
        values.append(total)
    return np.array(times_us, np.float64), np.array(values)
