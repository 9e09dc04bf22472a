"""Slow modes: a function takes much longer now and then, so often that this is one of its ways to run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US

APART = 8.0
"""Minimum factor between the median of a slow mode and that of the rest."""
OF_FUNCTION = 0.04
OF_RUN = 0.01
"""Minimum shares of the function's time and of the run's time that a slow mode holds."""
LEAST_CALLS = 3
MOST_SHARE = 0.1
"""Maximum share of the calls: what happens more often is one of the ways in which the function usually runs,
as on each of the levels of a multigrid solver, which are a third of its calls.
"""
VALLEY_BUCKETS = 4
"""Number of buckets on either side of where two modes part that are looked at: half a doubling."""
VALLEY = 0.2
"""Maximum number of calls there, relative to those of the slow mode."""


class SlowMode(msgspec.Struct, frozen=True):
    """Calls of a function that take longer than its others, from ``from_us`` on."""

    program: str
    function: str
    from_us: float
    share: float
    """Share of the function's calls."""
    typical_us: float
    """Median of the slow ones; ``usual_us`` is that of the others."""
    usual_us: float
    lost_us: float
    """Mean time that a slow call takes beyond ``usual_us``."""


def slow_mode(
    program: str,
    function: str,
    counts: Float64Array,
    edges_us: Float64Array,
    run_us_per_call: float,
) -> SlowMode | None:
    """Return the slow mode of a function, if it has one that is worth reporting.

    Parameters
    ----------
    counts, edges_us
        f8[buckets] and f8[buckets + 1]: numbers of calls by runtime; eight buckets a doubling.
    run_us_per_call
        Time of the whole run, on all ranks, for each call of the function.
    """
    middles_us = np.sqrt(edges_us[:-1] * edges_us[1:])
    calls, time_us = np.cumsum(counts), np.cumsum(counts * middles_us)
    total, total_us = calls[-1], time_us[-1]
    best: tuple[float, int] | None = None
    for first in _partings(counts, calls):
        slow, slow_us = total - calls[first - 1], total_us - time_us[first - 1]
        if not LEAST_CALLS <= slow <= MOST_SHARE * total:
            continue
        if slow_us < max(OF_FUNCTION * total_us, OF_RUN * run_us_per_call * total):
            continue
        if _median(counts[first:], middles_us[first:]) < APART * _median(counts[:first], middles_us[:first]):
            continue
        # Of several partings the one that leaves most to the slow mode.
        if best is None or slow_us > best[0]:
            best = float(slow_us), first
    if best is None:
        return None
    slow_us, first = best
    slow = float(total - calls[first - 1])
    usual_us = _median(counts[:first], middles_us[:first])
    return SlowMode(
        program,
        function,
        float(edges_us[first]),
        slow / float(total),
        _median(counts[first:], middles_us[first:]),
        usual_us,
        slow_us / slow - usual_us,
    )


def _partings(counts: Float64Array, calls: Float64Array) -> list[int]:
    """Return the buckets from which a mode of its own may begin: hardly any calls are near."""
    used = np.flatnonzero(counts)
    if len(used) < 2:
        return []
    found = []
    for first in used[1:].tolist():
        slow = calls[-1] - calls[first - 1]
        near = counts[max(first - 2 * VALLEY_BUCKETS, 0) : first].sum()
        if calls[first - 1] > slow and near < VALLEY * slow:
            found.append(int(first))
    return found


def _median(counts: Float64Array, middles_us: Float64Array) -> float:
    return float(middles_us[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])


def slow_modes_of(
    functions: Sequence[tuple[str, str]], counts: Float64Array, exclusive: Float64Array
) -> list[SlowMode]:
    """Return the slow modes of all functions of a run.

    Parameters
    ----------
    functions
        Names of program and function.
    counts
        f8[functions, buckets].
    exclusive
        f8[functions, 7]: moments of the exclusive runtime; number and mean are the first two.
    """
    calls = exclusive[:, 0].tolist()
    run_us = float((exclusive[:, 0] * exclusive[:, 1]).sum())
    found = (
        slow_mode(program, name, of_function, EDGES_US, run_us / max(times, 1.0))
        for (program, name), of_function, times in zip(functions, counts, calls, strict=True)
        if of_function.any()
    )
    return [mode for mode in found if mode is not None]
