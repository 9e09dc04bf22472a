"""A curve of which a bounded number of points is kept, with its peaks. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_POINTS = 256
_Point = tuple[int, float]


class Points:
    """Times and values in the order in which they came.

    Where there are too many, of each four that follow on each other the least and the largest stay, so that
    no peak is lost. What is not a number stands out more than any number.
    """

    def __init__(self) -> None:
        self._points: list[_Point] = []

    def add(self, time_us: int, value: float) -> None:
        """One point more."""
        if len(self._points) == MOST_POINTS:
            self._points = _thinned(self._points)
        self._points.append((time_us, value))

    @property
    def times_us(self) -> list[int]:
        """Since the epoch."""
        return [time_us for time_us, _ in self._points]

    @property
    def values(self) -> list[float | None]:
        """None for what is no finite number."""
        return [value if math.isfinite(value) else None for _, value in self._points]


def _thinned(points: Sequence[_Point]) -> list[_Point]:
    fours = (points[at : at + 4] for at in range(0, len(points), 4))
    return [point for four in fours for point in _extremes(four)]


def _extremes(points: Sequence[_Point]) -> list[_Point]:
    if len(points) <= 2:
        return list(points)
    at = range(len(points))
    most = max(at, key=lambda place: _height(points[place][1]))
    least = min((place for place in at if place != most), key=lambda place: _height(points[place][1]))
    return [points[place] for place in sorted((least, most))]


def _height(value: float) -> float:
    return math.inf if math.isnan(value) else value
