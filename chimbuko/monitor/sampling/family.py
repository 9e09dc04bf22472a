"""Which processes are watched: some, and all that they start."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from chimbuko.monitor.procfs.numbers import counter
from chimbuko.monitor.procfs.task import parse_stat, parse_thread_group
from chimbuko.monitor.sampling.procreader import ProcReader, read_once

MOST_NEW = 16
"""Numbers given since the last look that are looked up one by one; of more, those that ``/proc`` lists."""


class Family:
    """Looks for new processes only among the numbers that the kernel has given since the last look."""

    def __init__(self, roots: Sequence[int], files: ProcReader) -> None:
        self._files = files
        self._roots = list(roots)
        self._pids: list[int] = []
        self._last: int | None = None

    def follow(self, roots: Sequence[int]) -> None:
        """Watch these as well."""
        for root in roots:
            if root not in self._roots:
                self._roots.append(root)
                self._last = None

    def pids(self) -> list[int]:
        """All of them, in the order in which they were found."""
        # "0.10 0.20 0.30 1/234 4711": the last number that a process or thread of this namespace was given.
        newest = counter(self._files.read("/proc/loadavg").rpartition(b" ")[2].strip())
        last, self._last = self._last, newest
        if newest is None or last is None or newest < last:
            self._pids = family(self._roots)
            return list(self._pids)
        known = [pid for pid in self._pids if pid in self._roots or os.path.exists(f"/proc/{pid}")]
        # A process has a larger number than the one that started it.
        for number in _given(last + 1, newest + 1):
            if number not in known and _is_child(number, known):
                known.append(number)
        self._pids = known
        return list(known)


def _given(first: int, end: int) -> Sequence[int]:
    """Numbers of this range that may be those of processes, in order."""
    if end - first <= MOST_NEW:
        return range(first, end)
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and first <= int(name) < end)


def family(roots: list[int]) -> list[int]:
    """These processes and all that they have started, by ``children`` of each thread."""
    found: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found[pid] = None
        waiting += _children(pid)
    return list(found)


def _children(pid: int) -> list[int]:
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    lists = (read_once(f"/proc/{pid}/task/{tid}/children") for tid in tids)
    return [int(child) for line in lists for child in line.split()]


def _is_child(number: int, known: Collection[int]) -> bool:
    """Whether this is a process that one of these has started; else a thread, or another's, or nobody."""
    stat = parse_stat(read_once(f"/proc/{number}/stat"))
    if stat is None or stat.parent not in known:
        return False
    return parse_thread_group(read_once(f"/proc/{number}/status")) == number
