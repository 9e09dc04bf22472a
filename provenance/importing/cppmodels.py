"""Models of functions that the C++ Chimbuko recorded, as rows of our detectors' tables.

Its ``sstd`` has moments, ``RunStats``. ``hbos`` and ``copod``, which cannot be distinguished there, have a
histogram: its bins have edges of their own, or the first edge and a width; moments are worked out of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of

Object = dict[str, Any]

NOTHING = Moments()


class RunStatistics(msgspec.Struct, frozen=True):
    """``RunStats`` in JSON, where null stands for a figure that is not known."""

    count: float
    mean: float | None = None
    stddev: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    skewness: float | None = None
    kurtosis: float | None = None

    def moments(self) -> Moments:
        """Return the statistics as moments that merge."""
        if self.count < 1:
            return Moments()
        n, mean = self.count, self.mean or 0.0
        m2 = (self.stddev or 0.0) ** 2 * (n - 1)
        return Moments(
            n,
            mean,
            m2,
            m3=(self.skewness or 0.0) * m2**1.5 / math.sqrt(n),
            m4=((self.kurtosis or 0.0) + 3.0) * m2 * m2 / n,
            # Some have a maximum of nearly 0, its initial value, for calls that all took 0.
            minimum=mean if self.minimum is None else min(self.minimum, mean),
            maximum=mean if self.maximum is None else max(self.maximum, mean),
        )


class Histogram(msgspec.Struct, frozen=True):
    """Histogram in any of the forms that the C++ Chimbuko has had, or in ours."""

    counts: list[float] | None = msgspec.field(name="Bin Counts", default=None)
    edges: list[float] | None = msgspec.field(name="Bin Edges", default=None)
    older_counts: list[float] | None = msgspec.field(name="Histogram Bin Counts", default=None)
    older_edges: list[float] | None = msgspec.field(name="Histogram Bin Edges", default=None)
    first_edge: float | None = msgspec.field(name="First edge", default=None)
    bin_width: float | None = msgspec.field(name="Bin width", default=None)
    minimum: float | None = msgspec.field(name="Min", default=None)
    maximum: float | None = msgspec.field(name="Max", default=None)

    def bins(self) -> tuple[Float64Array, Float64Array]:
        """Return counts f8[bins] and edges f8[bins + 1].

        Raises
        ------
        ValueError
            They do not fit together.
        """
        counts = np.array(self.counts if self.counts is not None else self.older_counts or [], np.float64)
        edges = self.edges if self.edges is not None else self.older_edges
        if edges is None and self.first_edge is not None and self.bin_width is not None:
            edges = (self.first_edge + self.bin_width * np.arange(len(counts) + 1)).tolist()
        if not len(counts):
            return counts, np.zeros(1)
        if edges is None or len(edges) != len(counts) + 1:
            raise ValueError(f"histogram of {len(counts)} bins with {len(edges or [])} edges")
        if any(upper < lower for lower, upper in pairwise(edges)):
            raise ValueError("histogram whose edges do not rise")
        return counts, np.array(edges, np.float64)


class FinalModel(msgspec.Struct, frozen=True):
    """Entry of ``ad_model``: the model of a function at the end."""

    func_name: str
    model: Object
    pid: int = 0


class RuntimeProfile(msgspec.Struct, frozen=True):
    """Statistics of a function's runtimes."""

    exclusive_runtime: RunStatistics
    inclusive_runtime: RunStatistics


class AnomalyMetrics(msgspec.Struct, frozen=True):
    """Sums over a function's abnormal calls."""

    anomaly_count: RunStatistics
    severity: RunStatistics


class FunctionProfile(msgspec.Struct, frozen=True):
    """Entry of ``func_stats``."""

    fname: str
    app: int = 0
    runtime_profile: RuntimeProfile | None = None
    anomaly_metrics: AnomalyMetrics | None = None


class CounterProfile(msgspec.Struct, frozen=True):
    """Entry of ``counter_stats``."""

    counter: str
    stats: RunStatistics
    app: int = 0


@dataclass(frozen=True, eq=False)
class Learned:
    """Model that a detector had of a function."""

    moments: Moments = NOTHING
    """Moments of the runtime that was judged, in µs."""
    buckets: Float64Array | None = None
    """Calls by runtime, f8[BUCKETS]; None if only moments are reported."""

    @property
    def detector(self) -> str:
        """Detector of ours that learns the same."""
        return "sstd" if self.buckets is None else "hbos"

    def row(self, detector: str, metric: str) -> Float64Array:
        """Return a row of the detector's table, f8[width]; nothing is known of the other runtime."""
        schema = schema_of(detector)
        row: Float64Array = schema.empty(1)[0]
        row[schema.slices[f"{metric}_us"]] = self.moments.row()
        if self.buckets is not None and "buckets" in schema.slices:
            row[schema.slices["buckets"]] = self.buckets
        return row


def learned_of(params: Object) -> Learned:
    """Read what stands in ``algo_params``, ``func_stats`` or ``model``.

    Raises
    ------
    ValueError, msgspec.ValidationError
        The value is neither statistics nor a histogram.
    """
    if "histogram" not in params:
        return Learned(msgspec.convert(params, RunStatistics).moments())
    histogram = msgspec.convert(params["histogram"], Histogram)
    counts, edges_us = histogram.bins()
    return Learned(_moments(counts, edges_us, histogram), _buckets(counts, edges_us))


def final_model_of(value: object) -> tuple[tuple[int, str], Learned]:
    """Return program and name of a function, and its model at the end.

    Raises
    ------
    ValueError, msgspec.ValidationError
        A field is missing, or has a value that it cannot have.
    """
    theirs = msgspec.convert(value, FinalModel)
    return (theirs.pid, theirs.func_name), learned_of(theirs.model)


def _moments(counts: Float64Array, edges_us: Float64Array, histogram: Histogram) -> Moments:
    """Return moments as if each call had taken as long as the middle of its bin."""
    n = float(counts.sum())
    if n < 1:
        return Moments()
    middles = (edges_us[:-1] + edges_us[1:]) / 2
    mean = float((counts * middles).sum() / n)
    m2, m3, m4 = (float((counts * (middles - mean) ** power).sum()) for power in (2, 3, 4))
    lowest, highest = edges_us[[0, -1]].tolist()
    return Moments(
        n,
        mean,
        m2,
        m3,
        m4,
        lowest if histogram.minimum is None else histogram.minimum,
        highest if histogram.maximum is None else histogram.maximum,
    )


def _buckets(counts: Float64Array, edges_us: Float64Array) -> Float64Array:
    """Return calls by bucket, f8[BUCKETS], with each bin spread evenly over the buckets that it lies in."""
    cumulated = np.concatenate(([0.0], np.cumsum(counts)))
    below = np.interp(EDGES_US, edges_us, cumulated)
    below[0], below[-1] = 0.0, cumulated[-1]
    buckets: Float64Array = np.diff(below)
    return buckets
