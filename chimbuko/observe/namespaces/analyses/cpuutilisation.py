"""CPU utilisation of each node, as SOMA computes it from lines of ``/proc/stat``.

Of two samples after each other it is 100 · (Δtotal − Δidle) / Δtotal: idle is idle and iowait, and total that
and user, nice, system, irq, softirq and steal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chimbuko.observe.namespaces.analyses.series import values
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.tree.leaves import Leaf, elements
from chimbuko.observe.namespaces.tree.paths import Path
from chimbuko.observe.namespaces.tree.tree import Nested

_TIMES = 8
"""Number of leading fields that are added up: user, nice, system, idle, iowait, irq, softirq and steal. The
fields behind them are contained in the first ones already.
"""
_IDLE, _IOWAIT = 3, 4
Ticks = tuple[int, int]
"""Ticks since the machine booted: all of them, and the idle ones."""


def cpu_utilisation(observations: Sequence[Observation]) -> Nested:
    """Return the utilisation of each node in per cent, between the last two samples and in the mean of
    all.

    Samples are leaves ``HOST/stat/cpu``, each the numbers of that line as a string or an array, or in SOMA's
    layout, with a key for each moment, ``PROC/HOST/TIME/stat/cpu``. They are in the order in which they came.
    """
    samples: dict[str, list[Ticks]] = defaultdict(list)
    for path, _, leaf in values(observations):
        if (sample := sample_of(path, leaf)) is not None:
            samples[sample[0]].append(sample[1])
    return {
        host: {
            "utilisation_percent": percent(taken[-2], taken[-1]),
            "mean_utilisation_percent": percent(taken[0], taken[-1]),
            "samples": len(taken),
        }
        for host, taken in samples.items()
        if len(taken) > 1 and taken[-1][0] > taken[-2][0]
    }


def sample_of(path: Path, leaf: Leaf) -> tuple[str, Ticks] | None:
    """Return the node and its ticks if the leaf is a sample of CPU ticks, else None."""
    times = _times(leaf) if path[-2:] == ("stat", "cpu") and len(path) > 2 else None
    if times is None:
        return None
    host = path[1] if path[0] == "PROC" and len(path) > 3 else path[-3]
    return host, (sum(times), times[_IDLE] + times[_IOWAIT])


def percent(before: Ticks, after: Ticks) -> float:
    """Return the utilisation in per cent between two samples, of which the later one has more ticks."""
    total, idle = after[0] - before[0], after[1] - before[1]
    return 100.0 * (total - idle) / total


def _times(leaf: Leaf) -> list[int] | None:
    if isinstance(leaf, str):
        words = [word for word in leaf.split() if word.isdecimal()]
    else:
        words = [str(int(number)) for number in elements(leaf).ravel().tolist()]
    return [int(word) for word in words[:_TIMES]] if len(words) >= _TIMES else None
