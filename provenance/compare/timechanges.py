"""Rows that add up to the difference in time of two runs, which are sure, and the whole change. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.compare.changes import FEW_DEGREES, Change, Judge, Verdict
from chimbuko.provenance.compare.effects import (
    LEAST_CALLS,
    LEAST_P_OF_RUNS,
    adjusted,
    costs_differ,
    differences,
    half_width_95,
)
from chimbuko.provenance.compare.runprofile import FunctionProfile, RunProfile

LEAST_SHARE = 0.01
"""Least share of the whole time for a row to be named: less nobody sees at the end of a run."""
ALONE_SHARE = 0.02
ALONE_RATIO = 1.5
"""Least share of the whole time, and least factor, for a row to be named of which neither calls nor runs show
how far equal ones differ: single calls load, compile and read files, and who waits does so for others."""

_WAITS = re.compile(
    r"^P?MPI[_ ]|wait|recv|receive|barrier|synchroni[sz]e|(\b|_)(join|poll|select|sleep|lock|mutex)(\b|_)",
    re.IGNORECASE,
)

Kind = Literal[
    "more calls",
    "fewer calls",
    "longer calls",
    "shorter calls",
    "called once",
    "new",
    "gone",
    "in no known call",
    "others",
]


class TimeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the time in all calls of one function on all ranks, or of the time in no known call.

    In each pair the first run comes first; times of several runs are means per run.
    """

    program: str
    name: str
    """Name of the function; empty for time in no known call, and for what all others have in sum."""
    kind: Kind
    """Cause of the larger part: the number of calls, their length, the length of single calls (one on each
    rank at most), or that only one of the runs has it."""
    is_waiting: bool
    """Whether the function waits for others, by its name."""
    calls: tuple[float, float]
    time_us: tuple[float, float]
    by_number_us: float
    """Part that is due to the number of calls, each taken as long as before."""
    by_length_us: float
    """Part that is due to the length of calls; both parts add up to the change."""
    verdict: Verdict

    @property
    def change_us(self) -> float:
        """Return by how much the time has grown."""
        return self.time_us[1] - self.time_us[0]


class Pair(NamedTuple):
    """One function in both runs."""

    before: FunctionProfile
    after: FunctionProfile


def waits_by_name(function: str) -> bool:
    """Whether a function waits for others, by its name: it takes longer because others do."""
    return _WAITS.search(function) is not None


class Alone(NamedTuple):
    """Functions that one side alone has."""

    gone: Sequence[FunctionProfile]
    new: Sequence[FunctionProfile]


def time_changes(
    before: RunProfile,
    after: RunProfile,
    both: Sequence[Pair],
    alone: Alone,
    per_call: Sequence[tuple[Change, Change]],
    judge: Judge,
) -> list[TimeChange]:
    """Return rows that add up to the difference of both runs' ``total_us``, the largest change first.

    Parameters
    ----------
    per_call
        Changes of the runtimes of each function that both have: the usual one, and the mean.
    """
    total_us = max(before.total_us, after.total_us)
    rows = [_row(pair, len(before.ranks)) for pair in both]
    one_sided = [
        *(_one_sided(one, "gone", total_us) for one in alone.gone),
        *(_one_sided(one, "new", total_us) for one in alone.new),
    ]
    known_us = [sum(row.time_us[at] for row in [*rows, *one_sided]) for at in (0, 1)]
    elsewhere = _nameless("in no known call", (before.total_us - known_us[0], after.total_us - known_us[1]))
    ln_calls = np.log([[max(one.spent.calls, 1.0) for one in _each(pair)] for pair in both])
    ln_calls = ln_calls.reshape(len(both), len(judge.is_after))
    in_time = _by_calls(both, ln_calls, judge)
    in_number = _by_number(ln_calls, judge)
    by_runs = _by_runs(before, after, both, judge)
    evidence = [
        _Evidence((in_time[at], *per_call[at]), in_number[at], by_runs[at]) for at in range(len(both))
    ]
    evidence.append(_Evidence((), False, by_runs[-1]))
    judged = [
        msgspec.structs.replace(row, verdict=_verdict(row, found, total_us, judge.has_several))
        for row, found in zip([*rows, elsewhere], evidence, strict=True)
    ]
    return sorted([*judged, *one_sided], key=lambda row: (-abs(row.change_us), row.program, row.name))


def at_most(rows: Sequence[TimeChange], number: int) -> list[TimeChange]:
    """Return the first rows, and all others in one: these add up to the same."""
    shown, rest = list(rows[:number]), rows[number:]
    if not rest:
        return shown
    times_us = sum(row.time_us[0] for row in rest), sum(row.time_us[1] for row in rest)
    return [*shown, _nameless("others", times_us)]


def _row(pair: Pair, ranks: int) -> TimeChange:
    first, second = pair.before.spent, pair.after.spent
    expected_us = second.calls * first.us / first.calls if first.calls else first.us
    by_number_us, by_length_us = expected_us - first.us, second.us - expected_us
    if first.calls == second.calls <= max(1, ranks):
        kind: Kind = "called once"
    elif abs(by_number_us) > abs(by_length_us):
        kind = "more calls" if by_number_us > 0 else "fewer calls"
    else:
        kind = "longer calls" if by_length_us > 0 else "shorter calls"
    return TimeChange(
        program=pair.after.program,
        name=pair.after.name,
        kind=kind,
        is_waiting=waits_by_name(pair.after.name),
        calls=(first.calls, second.calls),
        time_us=(first.us, second.us),
        by_number_us=by_number_us,
        by_length_us=by_length_us,
        verdict="unclear",
    )


def _one_sided(one: FunctionProfile, kind: Literal["new", "gone"], total_us: float) -> TimeChange:
    calls, us = one.spent.calls, one.spent.us
    is_new, is_large = kind == "new", us >= ALONE_SHARE * total_us
    return TimeChange(
        program=one.program,
        name=one.name,
        kind=kind,
        is_waiting=waits_by_name(one.name),
        calls=(0, calls) if is_new else (calls, 0),
        time_us=(0.0, us) if is_new else (us, 0.0),
        by_number_us=us if is_new else -us,
        by_length_us=0.0,
        verdict="unclear" if not is_large else "slower" if is_new else "faster",
    )


def _nameless(kind: Literal["in no known call", "others"], time_us: tuple[float, float]) -> TimeChange:
    return TimeChange(
        program="",
        name="",
        kind=kind,
        is_waiting=False,
        calls=(0, 0),
        time_us=time_us,
        by_number_us=0.0,
        by_length_us=time_us[1] - time_us[0],
        verdict="unclear",
    )


@dataclass(frozen=True)
class _Evidence:
    """Signs that the time of a row has changed."""

    changes: tuple[Change, ...]
    """Changes of the time in all calls, and of single ones, which make a row sure where they go its way."""
    in_number: bool
    """Whether there are more calls, or fewer, than from run to run."""
    by_runs: bool
    """Whether the time differs by more than from run to run, where calls do not tell."""


def _by_calls(both: Sequence[Pair], ln_calls: Float64Array, judge: Judge) -> list[Change]:
    """Return the change of the time in all calls of each function, as far as its calls tell."""
    levels = [[one.level_of_all for one in _each(pair)] for pair in both]
    return judge.judge(levels, [pair.after.calls for pair in both], ln_calls).changes


def _by_number(ln_calls: Float64Array, judge: Judge) -> list[bool]:
    """Whether the number of calls of each function has changed, which machines seldom bring about."""
    is_large = np.abs(
        ln_calls[:, judge.is_after].mean(axis=1) - ln_calls[:, ~judge.is_after].mean(axis=1)
    ) >= np.log1p(judge.least_effect)
    if judge.has_several and len(ln_calls):
        found = differences(ln_calls.T, judge.is_after, np.zeros_like(ln_calls.T))
        is_large &= adjusted(found.p_value) < LEAST_P_OF_RUNS
    return [bool(one) for one in is_large]


def _by_runs(before: RunProfile, after: RunProfile, both: Sequence[Pair], judge: Judge) -> list[bool]:
    """Whether times differ by more than from run to run: those of each function that has few calls, and the
    time in no known call; false where there is one run on each side, which cannot tell.
    """
    differ = [False] * (len(both) + 1)
    if not judge.has_several:
        return differ
    times_us = np.array([[one.spent.us for one in _each(pair)] for pair in both])
    runs = (*before.each(), *after.each())
    elsewhere_us = [run.total_us - sum(one.spent.us for one in run.functions) for run in runs]
    times_us = np.vstack([times_us.reshape(len(both), len(runs)), elsewhere_us])
    least_us = LEAST_SHARE * max(run.total_us for run in runs)
    is_few = [min(one.calls for one in _each(pair)) < LEAST_CALLS for pair in both]
    places = [at for at, few in enumerate([*is_few, True]) if few and times_us[at].max() >= least_us]
    if places:
        for at, differs in zip(places, costs_differ(times_us[places].tolist(), judge.is_after), strict=True):
            differ[at] = differs
    return differ


def _each(pair: Pair) -> tuple[FunctionProfile, ...]:
    return *pair.before.each(), *pair.after.each()


def _verdict(row: TimeChange, found: _Evidence, total_us: float, has_several: bool) -> Verdict:
    us, least_us = row.change_us, LEAST_SHARE * total_us
    if abs(us) < least_us:
        return "same"
    verdict: Verdict = "slower" if us > 0 else "faster"
    if found.changes and found.changes[0].effect is not None and (has_several or not row.is_waiting):
        in_time, *per_call = (change.verdict == verdict for change in found.changes)
        in_length = any(per_call) and us * row.by_length_us > 0
        in_number = found.in_number and row.by_number_us * (1 if us > 0 else -1) >= least_us
        return verdict if in_time or in_length or in_number else "unclear"
    if has_several:
        return verdict if found.by_runs else "unclear"
    is_large = abs(us) >= ALONE_SHARE * total_us and max(row.time_us) >= ALONE_RATIO * min(row.time_us)
    return verdict if is_large else "unclear"


# Change of a run as a whole, by wall time and by the time of all ranks: is it slower, and by what? Pure.


class WholeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the whole run. In each pair the first run comes first; of several runs these are means."""

    wall_us: tuple[float, float]
    """Time from the first to the last event; 0 if that is not known."""
    time_us: tuple[float, float]
    """Time of all ranks, or of all calls where that is more."""
    effect: float
    """Share by which the wall time has grown, or the time of all ranks where that is not known."""
    net: float
    """Effect without what is common to all functions, as a rule because of the machine."""
    verdict: Verdict
    by_number_us: float
    """Part of the change in the time of all ranks that is due to more calls of functions, or to fewer; this
    and the following parts add up to it."""
    by_length_us: float
    """Part due to longer calls, or to shorter ones."""
    once_us: float
    """Part of functions that are called once, on each rank at most."""
    waits_us: float
    """Part of functions that wait for others, by their names."""
    new_us: float
    gone_us: float
    elsewhere_us: float
    """Part in no known call."""

    @property
    def change_us(self) -> float:
        """Return the growth of the time of all ranks, in µs."""
        return self.time_us[1] - self.time_us[0]


def whole_change(
    before: RunProfile,
    after: RunProfile,
    rows: Sequence[TimeChange],
    judge: Judge,
    machine: Float64Array,
) -> WholeChange:
    """Return the change of the whole.

    Parameters
    ----------
    rows
        All changes of functions, which add up to it.
    machine
        Logarithm of the factor by which everything takes longer in each run, f8[runs].
    """
    runs = (*before.each(), *after.each())
    has_wall = all(run.duration_us > 0 for run in runs)
    ln_us = np.log([max(1.0, run.duration_us if has_wall else run.total_us) for run in runs])
    raw, net = (
        float(ln[judge.is_after].mean() - ln[~judge.is_after].mean()) for ln in (ln_us, ln_us - machine)
    )
    return WholeChange(
        wall_us=(float(before.duration_us), float(after.duration_us)) if has_wall else (0.0, 0.0),
        time_us=(before.total_us, after.total_us),
        effect=math.expm1(raw),
        net=math.expm1(net),
        verdict=_whole_verdict(raw, net, _is_beyond_chance(ln_us - machine, judge), rows, judge.least_effect),
        **_parts(rows),
    )


def _is_beyond_chance(ln_us: Float64Array, judge: Judge) -> bool:
    if judge.has_several:
        values = ln_us[:, None]
        return bool(differences(values, judge.is_after, np.zeros_like(values)).p_value[0] < LEAST_P_OF_RUNS)
    return abs(float(ln_us[1] - ln_us[0])) > judge.assumed.alone * float(half_width_95(np.array(FEW_DEGREES)))


def _whole_verdict(
    raw: float, net: float, is_beyond_chance: bool, rows: Sequence[TimeChange], least_effect: float
) -> Verdict:
    """Return the verdict by the whole time, or by the sure changes of functions if these go the same way."""
    total_us = max(1.0, sum(max(row.time_us) for row in rows))
    certain_us = sum(row.change_us for row in rows if row.verdict in ("slower", "faster"))
    is_certain = certain_us * raw > 0 and abs(certain_us) >= LEAST_SHARE * total_us
    if is_certain or (is_beyond_chance and raw * net > 0 and abs(net) >= math.log1p(LEAST_SHARE)):
        return "slower" if raw > 0 else "faster"
    return "same" if max(abs(raw), abs(net)) < math.log1p(least_effect) else "unclear"


def _parts(rows: Sequence[TimeChange]) -> dict[str, float]:
    parts = dict.fromkeys(
        ("by_number_us", "by_length_us", "once_us", "waits_us", "new_us", "gone_us", "elsewhere_us"), 0.0
    )
    for row in rows:
        if row.kind in ("new", "gone"):
            parts[f"{row.kind}_us"] += row.change_us
        elif row.kind == "in no known call":
            parts["elsewhere_us"] += row.change_us
        elif row.is_waiting:
            parts["waits_us"] += row.change_us
        elif row.kind == "called once":
            parts["once_us"] += row.change_us
        else:
            parts["by_number_us"] += row.by_number_us
            parts["by_length_us"] += row.by_length_us
    return parts
