"""How the runtimes of a function are distributed, out of what its detector keeps of them."""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.kernels.buckets import EDGES_US
from chimbuko.messages import FunctionModel
from chimbuko.moments import Moments
from chimbuko.tables import schema_of


class Runtimes(msgspec.Struct, frozen=True):
    """Runtimes of the calls of a function."""

    calls: int
    mean_us: float
    stddev_us: float
    minimum_us: float
    maximum_us: float
    skewness: float
    kurtosis: float


class Bucket(msgspec.Struct, frozen=True):
    """Calls that took at least ``lower_us`` and less than ``upper_us``.

    Not a whole number where older calls have begun to count less than newer ones.
    """

    lower_us: float
    upper_us: float
    calls: float


class Distribution(msgspec.Struct, frozen=True):
    """What the detector knew of a function in one version of the global model."""

    program: int
    function: str
    version: int
    exclusive: Runtimes
    inclusive: Runtimes
    buckets: list[Bucket] | None
    """Of the runtime that is judged, from the first that is not empty to the last; null where the
    detector has none."""


def distribution(model: FunctionModel, detector: str) -> Distribution:
    """Of the model of a function that this detector made."""
    slices = schema_of(detector).slices
    row = np.frombuffer(model.row)
    buckets = None
    if "buckets" in slices:
        counts = row[slices["buckets"]]
        used = np.flatnonzero(counts)
        buckets = (
            [
                Bucket(float(EDGES_US[n]), float(EDGES_US[n + 1]), float(counts[n]))
                for n in range(used[0], used[-1] + 1)
            ]
            if len(used)
            else []
        )
    return Distribution(
        program=model.program,
        function=model.name,
        version=model.version,
        exclusive=_runtimes(Moments.from_row(row[slices["exclusive_us"]])),
        inclusive=_runtimes(Moments.from_row(row[slices["inclusive_us"]])),
        buckets=buckets,
    )


def _runtimes(moments: Moments) -> Runtimes:
    return Runtimes(
        calls=int(moments.n),
        mean_us=moments.mean,
        stddev_us=moments.stddev,
        minimum_us=moments.minimum if moments.n else 0.0,
        maximum_us=moments.maximum if moments.n else 0.0,
        skewness=moments.skewness,
        kurtosis=moments.kurtosis,
    )
