"""Change of a run as a whole, by wall time and by the time of all ranks: is it slower, and by what? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.compare.changes import FEW_DEGREES, Judge, Verdict
from chimbuko.provenance.compare.effects import LEAST_P_OF_RUNS, differences, half_width_95
from chimbuko.provenance.compare.runprofile import RunProfile
from chimbuko.provenance.compare.timechanges import LEAST_SHARE, TimeChange


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
        verdict=_verdict(raw, net, _is_beyond_chance(ln_us - machine, judge), rows, judge.least_effect),
        **_parts(rows),
    )


def _is_beyond_chance(ln_us: Float64Array, judge: Judge) -> bool:
    if judge.has_several:
        values = ln_us[:, None]
        return bool(differences(values, judge.is_after, np.zeros_like(values)).p_value[0] < LEAST_P_OF_RUNS)
    return abs(float(ln_us[1] - ln_us[0])) > judge.assumed.alone * float(half_width_95(np.array(FEW_DEGREES)))


def _verdict(
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
