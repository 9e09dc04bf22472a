"""What a GPU says of itself at one moment, whoever made it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

OF_OTHER_VERSIONS = (AttributeError, KeyError, TypeError)
"""What comes of a function that a library does not have yet, or that has other answers there."""


class GpuReading(NamedTuple):
    """One GPU. None is what its library does not say."""

    name: str
    busy_percent: float | None
    """Of the library's own last interval, some tenths of a second: the time in which a kernel ran."""
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    is_throttled: bool | None
    """It runs slower than it could, since it is too hot, or its power supply asks for it."""
    pids: frozenset[int] | None = None
    """Processes that compute on it, by their numbers outside of containers."""


class GpuProvider(Protocol):
    """The GPUs of one maker."""

    def read(self) -> list[GpuReading]:
        """All of them, always in the same order. What cannot be read is None, and no error."""

    def close(self) -> None:
        """No more will be read."""
