"""Detectors: what is ordinary for a function, by name.

May import ad.kernels, core.calls and core.statistics.

A detector turns rows of a statistics table, whose first columns are those of ``PROFILE``, into limits,
and runtimes into judgements. It keeps nothing itself: what is known is in the table, which merges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import DETECTORS, METRICS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.schema import TableSchema


@dataclass(frozen=True)
class Limits:
    """What is ordinary for each of some functions."""

    edges_us: Float64Array
    """f8[functions, edges], ascending, filled up with infinity. A runtime is ordinary where an odd number
    of edges lie at or below it: with two edges, from the first up to but without the second."""
    expected_us: Float64Array
    """f8[functions]: what calls are compared with."""
    measures: Float64Array
    """f8[functions, ...]: what the detector judges calls by, in its own terms; zero where nothing is known.
    The width is the detector's, for any number of functions."""


@dataclass(frozen=True)
class Judgements:
    """What a detector says of calls; arrays f8[calls]."""

    score: Float64Array
    """How far from ordinary, comparable across functions."""
    expected_us: Float64Array
    spread_us: Float64Array
    seen: Float64Array
    """Calls of the function that were known."""


class Detector(Protocol):
    """What every detector offers."""

    name: str
    schema: TableSchema
    default_threshold: float
    recheck_growth: float
    """Limits hold until the calls of a function have grown by this share, as long as none comes near them;
    0 where they are worked out anew for each step."""

    def limits(self, table: Float64Array, thresholds: Float64Array) -> Limits:
        """Limits by rows f8[functions, width] of the table and the threshold of each function."""
        ...

    def judge(self, measures: Float64Array, runtimes_us: Float64Array) -> Judgements:
        """Judge calls, each by the row of its function of ``Limits.measures``."""
        ...


def make_detector(config: AnalysisConfig) -> Detector:
    """The detector that the configuration names.

    Raises
    ------
    ConfigError
        Unknown detector or metric, or a threshold that is not positive.
    """
    if config.metric not in METRICS:
        raise ConfigError(f"metric {config.metric!r} is unknown; choose one of {', '.join(METRICS)}")
    if config.detector not in DETECTORS:
        raise ConfigError(f"detector {config.detector!r} is unknown; choose one of {', '.join(DETECTORS)}")
    for threshold in (config.threshold, *(threshold for _, threshold in config.thresholds)):
        if threshold is not None and not threshold > 0:
            raise ConfigError(f"threshold {threshold} is not possible; it must be positive")
    # Loaded here because each loads kernels, and most of the command line needs none.
    module, _, name = DETECTORS[config.detector].maker.rpartition(".")
    maker: Callable[[AnalysisConfig], Detector] = getattr(import_module(f"{__name__}.{module}"), name)
    return maker(config)
