"""Figures of the benchmarks, and the table that they make."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measuring import table

HEADS = ("figure", "median", "lowest", "highest", "at most", "baseline", "of baseline")


@dataclass(frozen=True)
class Figure:
    """One quantity, as measured in each round."""

    what: str
    values: Sequence[float]
    most: float | None = None
    """What it may be."""
    baseline: Sequence[float] = ()
    """What a page that does nothing takes in the same round."""

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.values)

    def row(self) -> tuple[str, ...]:
        """Of the table."""
        base = statistics.median(self.baseline) if self.baseline else None
        ratio = "" if not base else f"{self.median / base:.1f}"
        bounds = (text(min(self.values)), text(max(self.values)))
        return (self.what, text(self.median), *bounds, text(self.most), text(base), ratio)


def figures_table(figures: Sequence[Figure]) -> str:
    """As Markdown."""
    return table(HEADS, [figure.row() for figure in figures])


def text(value: float | None) -> str:
    """A number with three digits that count; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def load_now() -> str:
    """How busy the machine is: figures of a busy one mean little."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"
