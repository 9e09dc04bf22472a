"""Distribution of the runtimes of a function, from the model that its detector keeps."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of, stored_columns
from chimbuko.runtime.protocol.messages import FunctionModel


class Runtimes(msgspec.Struct, frozen=True):
    """Statistics of the runtimes of a function's calls."""

    calls: int
    mean_us: float
    stddev_us: float
    minimum_us: float
    maximum_us: float
    skewness: float
    kurtosis: float


class Bucket(msgspec.Struct, frozen=True):
    """Number of calls that took at least ``lower_us`` and less than ``upper_us``.

    Not a whole number where older calls have begun to count less than newer ones.
    """

    lower_us: float
    upper_us: float
    calls: float


class Span(msgspec.Struct, frozen=True):
    """Range of runtimes of at least ``lower_us`` and less than ``upper_us``; null where there is no such
    limit.
    """

    lower_us: float | None
    upper_us: float | None


class Distribution(msgspec.Struct, frozen=True):
    """Distribution of a function's runtimes in one version of the global model."""

    program: int
    function: str
    version: int
    exclusive: Runtimes
    inclusive: Runtimes
    buckets: list[Bucket] | None
    """Histogram of the runtime that is judged, from the first bucket that is not empty to the last; null
    where the detector has none.
    """
    counted: list[Bucket] | None
    """Histogram over the whole run, in which no call counts less than another; null in older stores."""
    ordinary: list[Span]
    """Ranges of runtimes that this model does not flag; one range without limits where it flags none, because
    too little is known or the function is ignored.
    """
    threshold: float
    """Threshold of the function, in the detector's own measure."""
    by_path_to_us: float = 0.0
    """Calls whose ``expected_us`` is up to this are judged by the range of their own call path, too, as calls
    on another one are clearly longer: that is about ``expected_us`` ± ``spread_us`` of the call. 0 where no
    paths are known.
    """


def distribution(model: FunctionModel, config: AnalysisConfig, by_path_to_us: float = 0.0) -> Distribution:
    """Return the distribution in the model of a function that a run with these settings made."""
    # Imported here because it loads compiled code, which would be a third of a dashboard's time to start.
    from chimbuko.ad.detectors.limits import ordinary_spans, threshold_of

    columns = stored_columns(config.detector, model.row)
    learned = np.concatenate([columns[column.name] for column in schema_of(config.detector).columns])
    spans_us = ordinary_spans(model.name, learned, config)
    return Distribution(
        program=model.program,
        function=model.name,
        version=model.version,
        exclusive=_runtimes(Moments.from_row(columns["exclusive_us"])),
        inclusive=_runtimes(Moments.from_row(columns["inclusive_us"])),
        buckets=_buckets(columns["buckets"]) if "buckets" in columns else None,
        counted=_buckets(columns["counted"]) if "counted" in columns else None,
        ordinary=[Span(_finite(lower_us), _finite(upper_us)) for lower_us, upper_us in spans_us],
        threshold=threshold_of(model.name, config),
        by_path_to_us=by_path_to_us,
    )


def _buckets(counts: Float64Array) -> list[Bucket]:
    used = np.flatnonzero(counts)
    if not len(used):
        return []
    return [
        Bucket(float(EDGES_US[n]), float(EDGES_US[n + 1]), float(counts[n]))
        for n in range(used[0], used[-1] + 1)
    ]


def _finite(us: float) -> float | None:
    return us if math.isfinite(us) else None


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
