"""Comparison of two runs: shifts of runtimes, functions that came and went, anomalies, ranks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from chimbuko.core.buckets import EDGES_US
from chimbuko.provenance.compare.changes import CallTime, Change, Judge, call_time, call_time_of_runs
from chimbuko.provenance.compare.effects import assumed_where, costs_differ, shares_differ
from chimbuko.provenance.compare.levels import Level
from chimbuko.provenance.compare.profilemerging import check_metrics
from chimbuko.provenance.compare.runprofile import (
    Findings,
    FunctionKey,
    FunctionProfile,
    PathProfile,
    RankProfile,
    RunProfile,
    pair_functions,
)
from chimbuko.provenance.compare.timechanges import (
    Alone,
    Pair,
    TimeChange,
    WholeChange,
    time_changes,
    waits_by_name,
    whole_change,
)

MORE = 2.0
"""Factor by which anomalies per call must grow to be called more."""
LEAST_DEVIATIONS = 3.3
"""Standard deviations by which they must grow: chance alone brings that in less than one of a thousand
cases."""

_TWO_SIDED_95 = 1.96
_MILLION = 1e6


class Rate(msgspec.Struct, frozen=True):
    """Anomalies per million calls, and the bounds of the true rate with a confidence of 95 %."""

    anomalies: int
    calls: int
    per_million: float
    low: float
    high: float

    @classmethod
    def of(cls, anomalies: int, calls: int) -> Rate:
        """Return the rate with its bounds after Wilson (1927), which hold for few and for none."""
        if not calls:
            return cls(0, 0, 0.0, 0.0, _MILLION)
        # A store that somebody else has made may count more of them than calls.
        share, z2 = min(1.0, anomalies / calls), _TWO_SIDED_95**2
        centre = (share + z2 / (2 * calls)) / (1 + z2 / calls)
        half = _TWO_SIDED_95 / (1 + z2 / calls) * math.sqrt(share * (1 - share) / calls + z2 / (4 * calls**2))
        # At none, and at all, the bound is exact but for rounding.
        low = min(share, max(0.0, centre - half))
        high = max(share, min(1.0, centre + half))
        return cls(anomalies, calls, _MILLION * share, _MILLION * low, _MILLION * high)


def has_more(before: Rate, after: Rate) -> bool:
    """Whether anomalies are more frequent after than before, by far and not by chance."""
    if not (before.calls and after.calls):
        return False
    # Half an anomaly more in each keeps the ratio finite.
    first, second = before.anomalies + 0.5, after.anomalies + 0.5
    ln_ratio = math.log(second / after.calls) - math.log(first / before.calls)
    return ln_ratio >= max(math.log(MORE), LEAST_DEVIATIONS * math.sqrt(1 / first + 1 / second))


LEAST_EFFECT = 0.05
"""Smallest shift that is named: the next compiler, link order or machine brings as much."""

LONGER_TAIL = 2.0
"""Factor by which the mean must have grown more than the usual runtime to be spoken of."""
NAMED = ("slower", "faster")


class BothRuntimes(msgspec.Struct, frozen=True):
    """Numbers of calls of both runs in the same buckets of the judged runtime, eight per doubling."""

    edges_us: list[float]
    """Edges of the buckets in µs, one more than there are buckets."""
    before: list[float]
    after: list[float]


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """Shift of the runtime of a function, or of a call path, from the first run to the second.

    In each pair the first run comes first.
    """

    program: str
    name: str
    """Name of the function."""
    callers: list[str]
    """Callers on a call path, outermost first."""
    calls: tuple[int, int]
    ordinary_us: tuple[float | None, float | None]
    """The usual runtime: geometric mean of the middle of the calls; on a call path the mean."""
    mean_us: tuple[float, float]
    """Mean exclusive runtime, anomalies included."""
    usual: Change
    """Change of the usual runtime."""
    mean: Change
    """Change of the mean, to which rare long calls belong; on a call path both are the same."""
    decided_by: Literal["usual", "mean"]
    """Runtime that decides: the mean where it has changed by more than chance, and than the usual runtime;
    else that."""
    is_waiting: bool
    """Whether the function waits for others, by its name: it takes longer because others do."""
    rates: tuple[Rate, Rate] | None = None
    """Rates of anomalies of a function."""
    has_more_anomalies: bool = False
    """Whether there are at least twice as many anomalies per call, and not by chance."""
    distribution: BothRuntimes | None = None
    """Runtimes of a function."""

    @property
    def decisive(self) -> Change:
        """The change that says whether it is slower."""
        return self.mean if self.decided_by == "mean" else self.usual

    @property
    def decisive_us(self) -> tuple[float | None, float | None]:
        """Runtimes that the decisive change is of."""
        return self.mean_us if self.decided_by == "mean" else self.ordinary_us


class OneSided(msgspec.Struct, frozen=True):
    """Function that only one of the runs calls."""

    program: str
    name: str
    calls: int
    total_us: float
    """Exclusive time in all its calls."""


class RankChange(msgspec.Struct, frozen=True):
    """Anomalies of one rank in both runs."""

    program: str
    rank: int
    rates: tuple[Rate, Rate]
    severity_us: tuple[float, float]
    """Time lost in anomalies."""
    has_more_anomalies: bool


class RunSide(msgspec.Struct, frozen=True):
    """Side of a comparison: one run, or several."""

    id: str
    name: str
    ranks: int
    calls: int
    duration_us: int
    exclusive_us: float
    """Exclusive time of all calls, on all ranks."""
    rate: Rate
    incidents: Findings
    recurring: Findings
    runs: int = 1
    """Number of runs that these figures stand for; all figures but the rate are means per run."""


class CostsDiffer(msgspec.Struct, frozen=True):
    """Whether costs of findings differ by more than from run to run; true where that is not known."""

    incidents: bool
    recurring: bool


class MetricChanges(msgspec.Struct, frozen=True):
    """Findings in published quantities that only one side has, in words.

    Findings are the same if they concern the same quantity on the same ranks in the same way.
    """

    new: list[str]
    """Findings of any run after, and of none before."""
    vanished: list[str]


class Comparison(msgspec.Struct, frozen=True):
    """Changes from the first run to the second; most important first."""

    before: RunSide
    after: RunSide
    metric: str
    least_effect: float
    common: float
    """Share by which all functions take longer, as a rule because of the machine. It is not part of the
    effects."""
    whole: WholeChange
    """Change of the run as a whole."""
    times: list[TimeChange]
    """Changes of the time of functions, which add up to that of the whole."""
    total: CallTime
    """Time in the calls of all functions that both runs have."""
    functions: list[Shift]
    paths: list[Shift]
    new: list[OneSided]
    vanished: list[OneSided]
    ranks: list[RankChange]
    costs_differ: CostsDiffer
    metrics: MetricChanges
    waited: float = 0.0
    """Share of the time in which threads could have run that they waited for a core, in the run with more of
    that."""

    @property
    def has_several(self) -> bool:
        """Whether a side has several runs, so that their spread was measured."""
        return self.before.runs + self.after.runs > 2


def compare(
    before: RunProfile, after: RunProfile, least_effect: float = LEAST_EFFECT, is_net: bool = True
) -> Comparison:
    """Compare two runs of a program, or of two versions of it; or several runs of each (``merging.merged``).

    With several runs on a side the spread between equal runs is measured, and not assumed.

    Parameters
    ----------
    least_effect
        Shifts by a smaller share are not named.
    is_net
        Whether the change that all functions have in common is separated; else it is part of each one's
        effect.

    Raises
    ------
    ConfigError
        The runs judge by different runtimes.
    """
    check_metrics(before, after)
    is_after = np.array([False] * len(before.each()) + [True] * len(after.each()))
    waited = max(before.waited, after.waited)
    judge = Judge(is_after, least_effect, is_net, assumed_where(waited))
    old = {(function.program, function.name): function for function in before.functions}
    new = {(function.program, function.name): function for function in after.functions}
    same = pair_functions(old, new)
    # In an order of its own, so that equally important ones come in the same order each time.
    both = [Pair(old[key], new[other]) for key, other in sorted(same.items())]
    calls = [b.calls for _, b in both]
    usual = judge.judge([[one.level for one in (*a.each(), *b.each())] for a, b in both], calls)
    mean = judge.judge([[one.level_of_all for one in (*a.each(), *b.each())] for a, b in both], calls)
    more = _more_anomalies(judge, both)
    per_call = list(zip(usual.changes, mean.changes, strict=True))
    functions = [
        _function_shift(*pair, *changes, is_more)
        for pair, changes, is_more in zip(both, per_call, more, strict=True)
        # Of others only the time of all calls is known.
        if pair.before.calls and pair.after.calls
    ]
    if judge.has_several:
        total = call_time_of_runs(both, is_after, mean.machine)
    else:
        total = call_time(both, mean.common, judge.assumed)
    alone = Alone(gone=_only_on(before, after), new=_only_on(after, before))
    times = time_changes(before, after, both, alone, per_call, judge)
    machine = mean.machine if judge.has_several else np.array([0.0, mean.common])
    whole = whole_change(before, after, times, judge, machine)
    return Comparison(
        before=_side(before),
        after=_side(after),
        metric=before.metric,
        least_effect=least_effect,
        common=math.expm1(usual.common),
        whole=whole,
        times=times,
        total=total,
        functions=_sorted(functions, whole),
        paths=_sorted(_path_shifts(judge, before.paths, after.paths, same), whole),
        new=_one_sided(alone.new),
        vanished=_one_sided(alone.gone),
        ranks=_rank_changes(judge, before.ranks, after.ranks, {a[0]: b[0] for a, b in same.items()}),
        costs_differ=_costs_differ(judge, before, after),
        metrics=MetricChanges(_only_in(after, before), _only_in(before, after)),
        waited=waited,
    )


def _function_shift(
    before: FunctionProfile, after: FunctionProfile, usual: Change, mean: Change, has_more_anomalies: bool
) -> Shift:
    return msgspec.structs.replace(
        _shift(before, after, after.name, [], usual, mean),
        rates=(_rate(before), _rate(after)),
        has_more_anomalies=has_more_anomalies,
        distribution=_distribution(before, after),
    )


def _more_anomalies(
    judge: Judge,
    both: Sequence[tuple[FunctionProfile, FunctionProfile]] | Sequence[tuple[RankProfile, RankProfile]],
) -> list[bool]:
    """Whether anomalies are more frequent in the second side, for each function."""
    more = [has_more(_rate(a), _rate(b)) for a, b in both]
    if not judge.has_several:
        return more
    counts = [[(one.anomalies, one.calls) for one in (*a.each(), *b.each())] for a, b in both]
    return [a and b for a, b in zip(more, shares_differ(counts, judge.is_after), strict=True)]


def _rate(profile: FunctionProfile | RankProfile) -> Rate:
    """Return the rate of all runs together."""
    each = profile.each()
    return Rate.of(sum(one.anomalies for one in each), sum(one.calls for one in each))


def _costs_differ(judge: Judge, before: RunProfile, after: RunProfile) -> CostsDiffer:
    """Return which costs differ.

    With one run on each side nothing is known of the spread between equal runs.
    """
    if not judge.has_several:
        return CostsDiffer(True, True)
    each = (*before.each(), *after.each())
    costs_us = [[run.incidents.cost_us for run in each], [run.recurring.cost_us for run in each]]
    return CostsDiffer(*costs_differ(costs_us, judge.is_after))


def _only_in(run: RunProfile, other: RunProfile) -> list[str]:
    return [sentence for key, sentence in run.metrics.items() if key not in other.metrics]


def _path_shifts(
    judge: Judge,
    before: list[PathProfile],
    after: list[PathProfile],
    same: dict[FunctionKey, FunctionKey],
) -> list[Shift]:
    """Return the shifts of paths that both runs have, by the names of their functions in the second run."""
    new = {(path.program, path.functions): path for path in after}
    both = []
    for path in before:
        keys = [same.get((path.program, name), (path.program, name)) for name in path.functions]
        other = new.get((keys[-1][0], tuple(name for _, name in keys)))
        if other is not None:
            both.append((path, other))
    levels = [[one.level for one in (*a.each(), *b.each())] for a, b in both]
    judged = judge.judge(levels, [b.calls for _, b in both])
    return [
        _shift(a, b, b.functions[-1], list(b.functions[:-1]), change, change)
        for (a, b), change in zip(both, judged.changes, strict=True)
    ]


def _shift(
    before: FunctionProfile | PathProfile,
    after: FunctionProfile | PathProfile,
    name: str,
    callers: list[str],
    usual: Change,
    mean: Change,
) -> Shift:
    return Shift(
        program=after.program,
        name=name,
        callers=callers,
        calls=(before.calls, after.calls),
        ordinary_us=(_ordinary_us(before.level), _ordinary_us(after.level)),
        mean_us=(before.mean_us, after.mean_us),
        usual=usual,
        mean=mean,
        decided_by=_decided_by(usual, mean),
        is_waiting=waits_by_name(name),
    )


def _decided_by(usual: Change, mean: Change) -> Literal["usual", "mean"]:
    if mean.verdict not in NAMED:
        return "usual"
    is_the_same = usual.verdict == mean.verdict
    return "usual" if is_the_same and abs(mean.effect or 0) < LONGER_TAIL * abs(usual.effect or 0) else "mean"


def _sorted(shifts: list[Shift], whole: WholeChange) -> list[Shift]:
    """Sort shifts: named ones first, and of these those in the direction of the whole.

    Among the slower ones, waiting functions come last, as they wait for the others.
    """
    first = "faster" if whole.verdict == "faster" else "slower"

    def key(shift: Shift) -> tuple[int, bool, float]:
        change = shift.decisive
        group = 2 if change.verdict not in NAMED else 0 if change.verdict == first else 1
        return group, change.verdict == "slower" and shift.is_waiting, -abs(change.lost_us)

    return sorted(shifts, key=key)


def _ordinary_us(level: Level | None) -> float | None:
    return None if level is None else math.exp(level.ln_us)


def _distribution(before: FunctionProfile, after: FunctionProfile) -> BothRuntimes | None:
    if before.counts is None or after.counts is None:
        return None
    used = np.flatnonzero(before.counts + after.counts)
    first, last = int(used[0]), int(used[-1]) + 1
    return BothRuntimes(
        EDGES_US[first : last + 1].tolist(),
        before.counts[first:last].tolist(),
        after.counts[first:last].tolist(),
    )


def _only_on(run: RunProfile, other: RunProfile) -> list[FunctionProfile]:
    """Return the functions that each run of one side has, and none of the other's."""
    own = {(function.program, function.name): function for function in run.functions}
    names = list(own)
    for one in other.each():
        for key in pair_functions(names, [(function.program, function.name) for function in one.functions]):
            own.pop(key, None)
    return list(own.values())


def _one_sided(functions: Sequence[FunctionProfile]) -> list[OneSided]:
    found = [
        OneSided(function.program, function.name, round(function.spent.calls), function.spent.us)
        for function in functions
    ]
    return sorted(found, key=lambda function: function.total_us, reverse=True)


def _rank_changes(
    judge: Judge, before: list[RankProfile], after: list[RankProfile], programs: dict[str, str]
) -> list[RankChange]:
    """Return the changes of ranks that both runs have, those that lose more time than before first."""
    new = {(rank.program, rank.rank): rank for rank in after}
    both = [
        (rank, other)
        for rank in before
        if (other := new.get((programs.get(rank.program, rank.program), rank.rank))) is not None
    ]
    changes = [
        RankChange(b.program, b.rank, (_rate(a), _rate(b)), (a.severity_us, b.severity_us), more)
        for (a, b), more in zip(both, _more_anomalies(judge, both), strict=True)
    ]
    return sorted(changes, key=lambda change: change.severity_us[0] - change.severity_us[1])


def _side(run: RunProfile) -> RunSide:
    calls = sum(function.calls for function in run.functions)
    each = [function for one in run.each() for function in one.functions]
    return RunSide(
        run.id,
        run.name,
        len(run.ranks),
        calls,
        run.duration_us,
        sum(function.calls * function.mean_us for function in run.functions),
        Rate.of(sum(function.anomalies for function in each), sum(function.calls for function in each)),
        run.incidents,
        run.recurring,
        len(run.each()),
    )
