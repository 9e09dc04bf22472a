"""Statistics tables made of runtimes, for tests of detectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.kernels.buckets import bucket_of
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import BUCKETED_PROFILE


def table_of(*runtimes_us: Sequence[float] | Float64Array, metric: str = "exclusive") -> Float64Array:
    """One row per function of ``BUCKETED_PROFILE``, whose judged runtimes these are."""
    table = BUCKETED_PROFILE.empty(len(runtimes_us))
    buckets = BUCKETED_PROFILE.slices["buckets"]
    for row, values in zip(table, runtimes_us, strict=True):
        row[BUCKETED_PROFILE.slices[f"{metric}_us"]] = Moments.of(values).row()
        for runtime_us in values:
            row[buckets.start + bucket_of(float(runtime_us))] += 1.0
    return table


def is_ordinary(edges_us: Float64Array, runtime_us: float) -> bool:
    """By the edges f8[edges] of one function."""
    return bool(np.count_nonzero(edges_us <= runtime_us) % 2)
