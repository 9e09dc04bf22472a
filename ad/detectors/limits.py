"""Ordinary runtimes of each function of one stream, computed anew only where it matters.

Score and label of every call are computed together, by ``FunctionLimits.judge``. ``ordinary_spans`` gives the
limits for displays that explain why calls are flagged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from chimbuko.ad.detectors import Detector, Verdicts, make_detector
from chimbuko.core.arrays import Float64Array, longer
from chimbuko.core.calls.functionnames import function_matcher
from chimbuko.core.calls.record import severity_us
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import OTHER_FUNCTIONS

NEAR = 0.8
"""Share of a limit beyond which a call makes the limit be computed anew."""


Expectation = Callable[[Float64Array], Float64Array]
"""Function that returns what comparable calls take, given what is expected of the calls' functions; both in
µs, float64[calls].
"""


class FunctionLimits:
    """Limits by timer id; a function of which nothing is known has none.

    Parameters
    ----------
    detector
        Detector that computes them.
    config
        Thresholds, functions to ignore, and the least difference that counts.
    """

    def __init__(self, detector: Detector, config: AnalysisConfig) -> None:
        self._detector = detector
        self._min_anomaly_us = config.min_anomaly_us
        self._fast_side = config.fast_side
        self._usual = config.usual_threshold
        self._special = [(function_matcher(pattern), threshold) for pattern, threshold in config.thresholds]
        self._ignored = [function_matcher(pattern) for pattern in config.ignore]
        self._thresholds = np.empty(0)
        self._seen = np.empty(0)
        self.edges_us = np.empty((0, 2))
        """Edges as in ``Limits``, float64[timers, edges]; the first is -inf where short calls are
        ordinary.
        """
        self.measures = detector.limits(detector.schema.empty(0), np.empty(0)).measures
        """Measures as in ``Limits``, float64[timers, width]; zero where nothing is known."""
        self.expected_us = np.empty(0)
        """Expected runtimes in µs, float64[timers]."""
        self.is_judged = np.zeros(0, np.uint8)
        """Whether each function has a name, and is not ignored; uint8[timers]."""

    def reserve(self, timers: int) -> None:
        """Make room for timer ids below ``timers``."""
        old = len(self._seen)
        if timers <= old:
            return
        room = max(timers, 2 * old)
        self._thresholds = longer(self._thresholds, room, self._usual)
        self._seen = longer(self._seen, room)
        self.expected_us = longer(self.expected_us, room)
        self.is_judged = longer(self.is_judged, room)
        self.measures = longer(self.measures, room)
        self.edges_us = self._widened(self.edges_us.shape[1], room)

    def name(self, timer: int, name: str) -> None:
        """Note the name of a function, which decides on its threshold; a row that functions share is not
        judged.
        """
        is_ignored = any(matches(name) for matches in self._ignored)
        self.is_judged[timer] = not is_ignored and name != OTHER_FUNCTIONS
        self._thresholds[timer] = self.threshold_of(name)

    def threshold_of(self, name: str) -> float:
        """Return the threshold of a function, in the detector's own measure."""
        return next((threshold for matches, threshold in self._special if matches(name)), self._usual)

    def due(
        self, timers: npt.NDArray[np.int64], seen: Float64Array, extremes: Float64Array
    ) -> npt.NDArray[np.bool_]:
        """Return which limits of ``timers`` have to be computed anew.

        Parameters
        ----------
        seen
            Known calls of each, float64[n].
        extremes
            Shortest and longest call of the step, float64[n, 2].
        """
        edges_us = self.ordinary_edges_us(timers)
        is_grown = seen >= (1.0 + self._detector.recheck_growth) * self._seen[timers]
        is_near = extremes[:, 1] > NEAR * edges_us[:, -1]
        if self._fast_side:
            is_near |= NEAR * extremes[:, 0] < edges_us[:, 0]
        is_due: npt.NDArray[np.bool_] = (is_grown | is_near) & (self.is_judged[timers] != 0)
        return is_due

    def may_be_exceeded(self, timers: npt.NDArray[np.int64], extremes: Float64Array) -> npt.NDArray[np.bool_]:
        """Return for which of ``timers`` a call of the step may be abnormal; ``extremes`` as for ``due``."""
        edges_us = self.edges_us[timers]
        # Who lost the least difference took at least that.
        highest_us = np.maximum(edges_us[:, 1], self._min_anomaly_us)
        is_inside = (extremes[:, 0] >= edges_us[:, 0]) & (extremes[:, 1] < highest_us)
        may_be: npt.NDArray[np.bool_] = ~is_inside & (self.is_judged[timers] != 0)
        return may_be

    def ordinary_edges_us(self, timers: npt.NDArray[np.int64]) -> Float64Array:
        """Return edges between runtimes that are flagged and those that are not, as in ``Limits``, where
        comparable calls take what is expected of their function.
        """
        edges_us, expected_us = self.edges_us[timers], self.expected_us[timers, None]
        inner, least_us = edges_us[:, 1:], self._min_anomaly_us
        if self._fast_side:
            edges_us[:, :1] = np.minimum(edges_us[:, :1], expected_us - least_us)
        edges_us[:, 1:] = np.where(np.isfinite(inner), np.maximum(inner, expected_us + least_us), inner)
        return edges_us

    def judge(
        self,
        timers: npt.NDArray[np.int64],
        runtimes_us: Float64Array,
        expectation: Expectation = np.copy,
    ) -> Verdicts:
        """Return score and label of calls, by the timer and the judged runtime of each."""
        judged = self._detector.judge(self.measures[timers], runtimes_us)
        expected_us = expectation(judged.expected_us)
        edges_us, threshold = self.edges_us[timers], self._thresholds[timers]
        is_ordinary = (edges_us <= runtimes_us[:, None]).sum(axis=1) % 2 == 1
        # The limit decides: rounding must not contradict it, nor the score of a range of runtimes that is
        # ordinary for another reason (of a young function, or one with too many modes).
        below = np.minimum(judged.score, np.nextafter(threshold, 0.0))
        score = np.where(is_ordinary, below, np.maximum(judged.score, threshold))
        is_judged = self.is_judged[timers] != 0
        is_short = runtimes_us < np.minimum(edges_us[:, 0], expected_us)
        over_us = np.where(is_short, expected_us - runtimes_us, runtimes_us - expected_us)
        is_costly = over_us >= self._min_anomaly_us
        return Verdicts(
            is_anomaly=is_judged & is_costly & ~is_ordinary,
            score=np.where(is_judged, score, 0.0),
            lost_us=severity_us(runtimes_us, expected_us),
            expected_us=expected_us,
            spread_us=judged.spread_us,
            seen=judged.seen,
            threshold=threshold,
            is_costly=is_costly,
        )

    def update(self, timers: npt.NDArray[np.int64], seen: Float64Array, table: Float64Array) -> None:
        """Compute the limits of ``timers`` from their rows of what is known, float64[n, width]."""
        limits = self._detector.limits(table, self._thresholds[timers])
        edges_us = limits.edges_us
        # Short is only what is shorter than expected, whatever the detector says.
        edges_us[:, 0] = np.minimum(edges_us[:, 0], limits.expected_us) if self._fast_side else -np.inf
        if edges_us.shape[1] > self.edges_us.shape[1]:
            self.edges_us = self._widened(edges_us.shape[1], len(self._seen))
        self.edges_us[timers] = np.inf
        self.edges_us[timers, : edges_us.shape[1]] = edges_us
        self.expected_us[timers] = limits.expected_us
        self.measures[timers] = limits.measures
        self._seen[timers] = seen

    def forget(self, timers: npt.NDArray[np.int64]) -> None:
        """Forget what was known of ``timers``: none of their calls is abnormal until it is known again."""
        self.edges_us[timers] = np.inf
        self.edges_us[timers, 0] = -np.inf
        for known in (self.expected_us, self.measures, self._seen):
            known[timers] = 0.0

    def _widened(self, edges: int, rows: int) -> Float64Array:
        """Return the edges in a larger table; where nothing is known all runtimes are ordinary."""
        larger = np.full((rows, edges), np.inf)
        larger[:, 0] = -np.inf
        larger[: len(self.edges_us), : self.edges_us.shape[1]] = self.edges_us
        return larger


Span = tuple[float, float]
"""Range of runtimes in µs, with its start and without its end; infinite where it is open."""


def ordinary_spans(function: str, known: Float64Array, config: AnalysisConfig) -> list[Span]:
    """Return ranges of the judged runtime in which no call of a function is flagged, ascending.

    One range without ends is returned where none is flagged at all: too little is known, or the function is
    ignored.

    Parameters
    ----------
    known
        The function's row of the detector's table, float64[width].
    """
    limits = FunctionLimits(make_detector(config), config)
    limits.reserve(1)
    limits.name(0, function)
    if limits.is_judged[0]:
        # A copy: of an array that cannot be written to, kernels would be compiled once more.
        limits.update(np.zeros(1, np.int64), known[:1].copy(), known[None].copy())
    edges_us = [*limits.ordinary_edges_us(np.zeros(1, np.int64))[0].tolist(), np.inf]
    spans = list(zip(edges_us[::2], edges_us[1::2], strict=False))
    return [(begin, end) for begin, end in spans if begin < np.inf]


def threshold_of(function: str, config: AnalysisConfig) -> float:
    """Return the threshold of a function, in the detector's own measure."""
    return FunctionLimits(make_detector(config), config).threshold_of(function)
