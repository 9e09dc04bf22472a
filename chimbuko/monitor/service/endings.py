"""Reasons to end a program before it ends itself: its log stands still, or somebody asks for it by a file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class LogWatch:
    """Whether a file has been written to lately. One that is not there yet has not."""

    path: Path
    time_out_s: float
    _last: tuple[int, int] | None = None
    _since_s: float | None = None

    def stale_s(self, now_s: float) -> float:
        """Return the seconds for which the log has not changed since it was first looked at, where that is
        too long; else 0.
        """
        last = None
        with suppress(OSError):
            found = self.path.stat()
            last = (found.st_mtime_ns, found.st_size)
        if self._since_s is None or last != self._last:
            self._last, self._since_s = last, now_s
        stale_s = now_s - self._since_s
        return stale_s if stale_s >= self.time_out_s else 0.0


@dataclass
class Endings:
    """Conditions that are looked at each period."""

    log: LogWatch | None = None
    stop_file: Path | None = None

    @property
    def is_any(self) -> bool:
        """Whether there is anything to look at."""
        return self.log is not None or self.stop_file is not None

    def reason(self, now_s: float) -> str:
        """Why the program is to be ended now; empty if it may go on."""
        if self.stop_file is not None and self.stop_file.exists():
            return f"{self.stop_file} is there"
        stale_s = self.log.stale_s(now_s) if self.log is not None else 0.0
        return f"{self.log.path} has not changed for {stale_s:.0f} s" if self.log and stale_s else ""
