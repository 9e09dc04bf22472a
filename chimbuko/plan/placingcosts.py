"""CPU time of an agent for a second, a step and a row of a trace, from what it took in intervals.

Where a run has not shown them, measured costs of other runs stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import combinations

import msgspec
import numpy as np
from msgspec.structs import astuple

from chimbuko.core.arrays import Float64Array
from chimbuko.runtime.protocol.telemetry import AgentLoad

FILE = "usual.json"
"""File of measured costs, written by ``python -m benchmarks.placing --keep``."""


class UnitCosts(msgspec.Struct, frozen=True):
    """CPU time, in seconds."""

    second: float
    step: float
    """CPU time for a step of one stream."""
    row: float

    def cpu_s(self, seconds: float, steps: float, rows: float) -> float:
        """Return the CPU time for so many seconds in which so many steps with so many rows come."""
        return self.second * seconds + self.step * steps + self.row * rows


class Slowdown(msgspec.Struct, frozen=True):
    """Time for which the application waits for each CPU-second of the analysis, as a multiple of what the
    equations say: 1 where both share a core, 0 where not.
    """

    shared: float = 1.0
    """Slowdown on all of several cores: more where it falls on them unevenly, since ranks wait for the last
    one.
    """
    inside: float = 1.0
    """Slowdown on some cores, or on the only one: more where both throw each other's data out of the caches.
    """
    own: float = 0.0
    """Slowdown by caches and memory, with the analysis on cores of its own."""

    def of_shared(self, cores: int) -> float:
        """Slowdown on all cores of so many; one core is nothing to share unevenly."""
        return self.shared if cores > 1 else self.inside


class Usual(msgspec.Struct, frozen=True):
    """Usual costs of the analysis of a node."""

    cpu_s: UnitCosts
    slowdown: Slowdown


@cache
def usual() -> Usual:
    """Return the usual costs that come with this version."""
    return msgspec.json.decode((files("chimbuko.plan") / FILE).read_bytes(), type=Usual)


_TRUST = 0.1
"""Weight of the usual costs beside one interval: it decides what intervals that are alike cannot."""
_TURNS = 3
"""Number of turns until the usual costs have their weight; further ones change the result by less than a
thousandth.
"""


def unit_costs(loads: Sequence[AgentLoad]) -> UnitCosts:
    """Fit unit costs by least squares of relative errors, none below 0; the usual costs without an interval.

    Where intervals are too much alike to divide their CPU time among seconds, steps and rows, it is divided
    as is usual, so that one interval is enough for a prediction of others like it.
    """
    known = [one for one in loads if one.cpu_s > 0]
    if not known:
        return usual().cpu_s
    unknowns = np.array([_counts(one) for one in known])
    taken_s = np.array([one.cpu_s for one in known])
    costs = np.array(astuple(usual().cpu_s))
    # Unknowns are multiples of what is usual: those are alike in size.
    multiples = unknowns * costs / taken_s[:, np.newaxis]
    scale = float(np.median(1.0 / multiples.sum(axis=1)))
    found = np.full(len(costs), scale)
    for _ in range(_TURNS):
        # The departure counts as a share of the larger one: what takes eight times as long as usual is not
        # drawn down to it.
        weight = _TRUST / np.maximum(found, scale)
        matrix = np.vstack([multiples, np.diag(weight)])
        found = _not_negative(matrix, np.concatenate([np.ones(len(known)), weight * scale]))
    return UnitCosts(*(found * costs).tolist())


def predictions_s(loads: Sequence[AgentLoad]) -> Float64Array:
    """Return the CPU time of each interval as all others predict it, in seconds, float64[loads]; by the usual
    costs where it is alone.
    """
    return np.array(
        [unit_costs([*loads[:at], *loads[at + 1 :]]).cpu_s(*_counts(one)) for at, one in enumerate(loads)]
    )


def _not_negative(matrix: Float64Array, wanted: Float64Array) -> Float64Array:
    """Solve least squares with no unknown below 0, by trying all choices of those that are 0.

    As exact as scipy's for three unknowns, and does not load scipy into each process that shows advice.
    """
    unknowns = matrix.shape[1]
    best, least = np.zeros(unknowns), float("inf")
    for chosen in (list(c) for size in range(1, unknowns + 1) for c in combinations(range(unknowns), size)):
        found = np.zeros(unknowns)
        found[chosen] = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)[0]
        error = float(((matrix @ found - wanted) ** 2).sum())
        if found.min() >= 0.0 and error < least:
            best, least = found, error
    return best


def _counts(load: AgentLoad) -> tuple[float, float, float]:
    return load.seconds, float(load.steps), float(load.rows)
