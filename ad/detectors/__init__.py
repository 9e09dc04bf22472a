"""Detectors, by name: which runtimes are ordinary for a function.

May import ad.kernels, core.calls and core.statistics.

A detector turns rows of a statistics table, whose first columns are those of ``PROFILE``, into limits, and
runtimes into judgements. It keeps no state: what is known is in the table, which merges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.core.arrays import BoolArray, Float64Array, Int64Array
from chimbuko.core.config import AnalysisConfig, detector_entry
from chimbuko.core.plugins import imported
from chimbuko.core.statistics.schema import TableSchema


class Limits(msgspec.Struct, frozen=True):
    """Ordinary runtimes of some functions."""

    edges_us: Float64Array
    """Edges of the ordinary ranges, float64[functions, edges], ascending, filled up with infinity. A runtime
    is ordinary where an odd number of edges lie at or below it: with two edges, from the first up to but
    without the second.
    """
    expected_us: Float64Array
    """Runtime that calls of each function are compared with, float64[functions]."""
    measures: Float64Array
    """Values that the detector judges calls by, float64[functions, width]; zero where nothing is known. The
    width is the detector's, for any number of functions.
    """


class Judgements(msgspec.Struct, frozen=True):
    """Judgements of a detector about calls, float64[calls] each."""

    score: Float64Array
    """Distance from ordinary in the unit of the threshold, comparable across functions."""
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    """Number of calls of the function that were known."""


class Verdicts(msgspec.Struct, frozen=True):
    """Labels of calls with the numbers that they follow from, as parallel arrays.

    A call is abnormal where its score reaches the threshold of its function, and the time it lost the least
    difference that counts.
    """

    is_anomaly: BoolArray
    score: Float64Array
    lost_us: Float64Array
    expected_us: Float64Array
    """Runtime that comparable calls take."""
    spread_us: Float64Array
    seen: Float64Array
    """Number of calls of the function that were known."""
    threshold: Float64Array
    """Threshold of each call's function."""
    is_costly: BoolArray
    """Whether each differs from what was expected by the least difference that counts."""

    def only(self, at: Int64Array) -> Verdicts:
        """Return the verdicts of the calls at these places."""
        return Verdicts(**{name: getattr(self, name)[at] for name in self.__struct_fields__})

    def replaced(self, at: Int64Array, by: Verdicts, is_taken: BoolArray) -> Verdicts:
        """Return verdicts of which those ``at`` some calls are those of ``by`` that are taken."""
        columns = {name: getattr(self, name).copy() for name in self.__struct_fields__}
        for name, column in columns.items():
            column[at] = getattr(by, name)[is_taken]
        return Verdicts(**columns)

    def upheld(self, is_upheld: BoolArray) -> Verdicts:
        """Return verdicts in which these calls are abnormal too, if they lost enough: they reach the
        threshold by what they belong to, and not by their runtime alone.
        """
        is_abnormal = is_upheld & self.is_costly
        score = np.where(is_abnormal, np.maximum(self.score, self.threshold), self.score)
        return replace(self, is_anomaly=self.is_anomaly | is_abnormal, score=score)


class Detector(Protocol):
    """Interface of every detector."""

    name: str
    schema: TableSchema
    recheck_growth: float
    """Growth of a function's number of calls up to which its limits hold, as long as no call comes near them;
    0 where they are computed anew for each step.
    """

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        """Return limits by rows of the table, float64[functions, width], and the threshold of each
        function.
        """
        ...

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge calls, each by the row of its function in ``Limits.measures``."""
        ...


def make_detector(config: AnalysisConfig) -> Detector:
    """Return the detector that the configuration names.

    Raises
    ------
    ConfigError
        Unknown detector or metric, or a threshold that is not positive.
    """
    config.check_detector()
    # Loaded here because each loads kernels, and most of the command line needs none.
    entry = detector_entry(config.detector)
    assert entry is not None
    maker: Callable[[AnalysisConfig], Detector] = imported(entry.maker, __name__)
    return maker(config)
