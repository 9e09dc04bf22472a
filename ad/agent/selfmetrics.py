"""What an agent takes for itself: memory and CPU time of its processes, and how far it is behind.

Two files of /proc, without psutil, which every agent would load for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PSS = re.compile(r"^Pss: +(\d+) kB", re.MULTILINE)


def memory_bytes(pids: Iterable[int]) -> int:
    """Proportional memory of these processes together: what they share with others is divided among all that
    do. Those that are gone have none.

    Source: ``smaps_rollup`` in proc(5).
    """
    total_kb = 0
    for pid in pids:
        found = _PSS.search(_read(f"/proc/{pid}/smaps_rollup"))
        total_kb += int(found[1]) if found else 0
    return 1024 * total_kb


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time of these processes and of those children of theirs that have ended."""
    ticks = 0
    for pid in pids:
        # The process name may itself contain spaces and parentheses.
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S


def spool_bytes(folders: Iterable[Path]) -> int:
    """Size of the files in these folders."""
    total = 0
    for folder in folders:
        try:
            total += sum(entry.stat().st_size for entry in os.scandir(folder))
        except FileNotFoundError:
            # Not made yet, or a segment was removed meanwhile; the next time shows.
            continue
    return total


class Lag:
    """How far the analysis is behind the traces of some streams.

    Trace clocks may be those of another day: what counts is by how much a stream is further behind than it
    ever was least.
    """

    def __init__(self) -> None:
        self._least_us: dict[str, int] = {}
        self._largest_us = 0

    def note(self, stream: str, end_us: int, now_us: int) -> None:
        """A step that ended at ``end_us`` of trace time was analysed by ``now_us``."""
        behind_us = now_us - end_us
        least_us = self._least_us[stream] = min(self._least_us.get(stream, behind_us), behind_us)
        self._largest_us = max(self._largest_us, behind_us - least_us)

    def take_s(self) -> float:
        """The largest since the last time."""
        largest_us, self._largest_us = self._largest_us, 0
        return largest_us / 1e6


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
