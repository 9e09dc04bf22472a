"""Which runtimes of a function are ordinary, by what is known of it: for who shows why calls are flagged."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig

Span = tuple[float, float]
"""From the first µs up to but without the second; infinite where it is open."""


def ordinary_spans(function: str, known: Float64Array, config: AnalysisConfig) -> list[Span]:
    """Spans of the judged runtime in which no call of a function is flagged, ascending.

    One span without ends where none is flagged at all: too little is known, or the function is ignored.

    Parameters
    ----------
    known
        f8[width], the function's row of the detector's table.
    """
    limits = FunctionLimits(make_detector(config), config)
    limits.reserve(1)
    limits.name(0, function)
    if limits.is_judged[0]:
        # A copy: of an array that cannot be written to, kernels would be compiled once more.
        limits.update(np.zeros(1, np.int64), known[:1].copy(), known[None].copy())
    edges_us = [*limits.edges_us[0].tolist(), np.inf]
    spans = list(zip(edges_us[::2], edges_us[1::2], strict=False))
    return [(begin, end) for begin, end in spans if begin < np.inf]


def threshold_of(function: str, config: AnalysisConfig) -> float:
    """The threshold of a function, in the detector's own measure."""
    return FunctionLimits(make_detector(config), config).threshold_of(function)
