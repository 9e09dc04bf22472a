"""Detectors: what is normal for a function, by name.

A detector's state is a statistics table whose first columns are those of ``PROFILE``; it turns rows
of that table into limits, and a runtime into a judgement. It keeps nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from chimbuko.config import METRICS, AnalysisConfig
from chimbuko.errors import ConfigError
from chimbuko.moments import Float64Array
from chimbuko.tables import TableSchema


@dataclass(frozen=True)
class Judgement:
    """What a detector says of one call."""

    score: float
    severity_us: float
    """Time lost against what was expected."""
    expected_us: float
    spread_us: float
    seen: int


class Detector(Protocol):
    """What every detector offers."""

    name: str
    schema: TableSchema

    def limits(self, table: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Lower and upper limit, f8[rows], in µs, for each row of ``table``; infinite where none is known."""
        ...

    def judge(self, row: Float64Array, runtime_us: float) -> Judgement:
        """Judge one runtime by the function's row."""
        ...


def make_detector(config: AnalysisConfig) -> Detector:
    """The detector that the configuration names.

    Raises
    ------
    ConfigError
        Unknown detector or metric, or an alpha that is not positive.
    """
    from chimbuko.ad.detectors.sstd import Sstd

    if config.metric not in METRICS:
        raise ConfigError(f"metric {config.metric!r} is unknown; choose one of {', '.join(METRICS)}")
    if config.detector != Sstd.name:
        raise ConfigError(f"detector {config.detector!r} is unknown; choose {Sstd.name}")
    return Sstd(config.alpha, config.metric)
