"""Readings of GPUs at one moment, whoever made them, and values over a span of time, which add up."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

OF_OTHER_VERSIONS = (AttributeError, KeyError, TypeError)
"""Errors of a function that a library does not have yet, or that answers differently there."""


class GpuReading(NamedTuple):
    """One GPU. None is what its library does not say."""

    name: str
    busy_percent: float | None
    """Share of the library's own last interval (some tenths of a second) in which a kernel ran, in per cent.
    """
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    is_throttled: bool | None
    """Whether the GPU runs slower than it could, because of its temperature or its power supply."""
    pids: frozenset[int] | None = None
    """Processes that compute on it, by their numbers outside of containers."""


class GpuProvider(Protocol):
    """The GPUs of one maker."""

    def read(self) -> list[GpuReading]:
        """Return the readings of all GPUs, always in the same order. A value that cannot be read is None."""

    def close(self) -> None:
        """Close the reader; nothing is read afterwards."""


BUSY, MEMORY, MEMORY_TOTAL = "Utilization %", "Memory Used (GB)", "Memory Total (GB)"
POWER, TEMPERATURE = "Power (W)", "Temperature (C)"
GB = 1e9


class Metric(msgspec.Struct, frozen=True):
    """One figure of a GPU over several samples."""

    least: float
    total: float
    """Sum of all samples."""
    most: float
    last: float
    samples: int = 1

    @property
    def mean(self) -> float:
        """Over all samples."""
        return self.total / self.samples

    def then(self, later: Metric) -> Metric:
        """Return both metrics as one."""
        return Metric(
            min(self.least, later.least),
            self.total + later.total,
            max(self.most, later.most),
            later.last,
            self.samples + later.samples,
        )


class GpuSpan(msgspec.Struct, frozen=True):
    """One GPU."""

    name: str
    metrics: dict[str, Metric]
    """Metrics by ZeroSum's names, without those that the library does not give."""
    periods: int = 1
    throttled_periods: int = 0
    """Number of periods at whose end the GPU ran slower than it could."""

    def then(self, later: GpuSpan) -> GpuSpan:
        """Return both spans as one."""
        metrics = dict(self.metrics)
        for name, metric in later.metrics.items():
            metrics[name] = metrics[name].then(metric) if name in metrics else metric
        return GpuSpan(
            later.name,
            metrics,
            self.periods + later.periods,
            self.throttled_periods + later.throttled_periods,
        )


def gpu_span(reading: GpuReading) -> GpuSpan:
    """Return a period at the end of which a GPU said this."""
    used, total = reading.memory_used_bytes, reading.memory_total_bytes
    values = {
        BUSY: reading.busy_percent,
        MEMORY: None if used is None else used / GB,
        MEMORY_TOTAL: None if total is None else total / GB,
        POWER: reading.power_w,
        TEMPERATURE: reading.temperature_c,
    }
    metrics = {
        name: Metric(value, value, value, value) for name, value in values.items() if value is not None
    }
    return GpuSpan(reading.name, metrics, throttled_periods=int(bool(reading.is_throttled)))
