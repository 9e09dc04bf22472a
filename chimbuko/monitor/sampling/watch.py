"""Watch of processes and of all that they start, period by period; of the past only sums are kept."""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress

from msgspec.structs import replace

from chimbuko.monitor.procfs.gpus import Gpus
from chimbuko.monitor.procfs.numbers import counter
from chimbuko.monitor.procfs.task import parse_stat, parse_thread_group
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.identity import Identity, read_identity, uses_openmp
from chimbuko.monitor.sampling.memorytrend import MemoryGrowth, MemoryTrend
from chimbuko.monitor.sampling.others import Others
from chimbuko.monitor.sampling.procreader import ProcReader, read_once
from chimbuko.monitor.sampling.sample import BLOCKED, MAIN, SAMPLER, Sample, kind_of
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.span import Span
from chimbuko.monitor.sampling.standstill import Standstills

_MOST_FILES = 256
"""Most descriptors that are looked at: a look costs 5 µs for each."""


def busiest_file(pid: int) -> str:
    """Return the path of the file that a process most likely waits for: of those that it has open for
    writing, or else for reading, the one in which it is farthest. Empty where there is none, or none may
    be seen.
    """
    found: list[tuple[bool, int, str]] = []
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd")[:_MOST_FILES]:
            # One may be closed meanwhile.
            with suppress(OSError, ValueError, KeyError):
                link = f"/proc/{pid}/fd/{name}"
                if stat.S_ISREG(os.stat(link).st_mode):
                    fields = dict(
                        line.split(b":\t", 1) for line in read_once(f"/proc/{pid}/fdinfo/{name}").splitlines()
                    )
                    is_written = bool(int(fields[b"flags"], 8) & os.O_ACCMODE)
                    found.append((is_written, int(fields[b"pos"]), os.readlink(link)))
    return max(found, default=(False, 0, ""))[2]


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
        """Return the watched processes, in the order in which they were found."""
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
    """Return the numbers of this range that may be those of processes, in order."""
    if end - first <= MOST_NEW:
        return range(first, end)
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and first <= int(name) < end)


def family(roots: list[int]) -> list[int]:
    """Return processes and all that they have started, as ``children`` of each thread lists them."""
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
    """Return whether a number is a process that one of these has started, and no thread or other process."""
    stat = parse_stat(read_once(f"/proc/{number}/stat"))
    if stat is None or stat.parent not in known:
        return False
    return parse_thread_group(read_once(f"/proc/{number}/status")) == number


class Watch:
    """Watch of processes since it began. The watcher is watched, too: the process that made it, or, where
    that is one of those to be watched, the thread.
    """

    def __init__(self, roots: Sequence[int], gpus: Gpus | None = None) -> None:
        self._own = os.getpid()
        self._thread = threading.get_native_id() if self._own in roots else None
        """The sampler's, where it is not the whole process."""
        files = ProcReader()
        self._family = Family(roots, files)
        self._sampler = Sampler(files, gpus)
        self._others = Others()
        self.last: Sample | None = None
        """The newest sample."""
        self._threads: Counter[int] = Counter()
        """Number of threads of each process."""
        self._kinds: dict[tuple[int, str, str], str] = {}
        """Kinds by thread and the names of it and of its process, as long as no thread begins or ends."""
        self._openmp: dict[int, tuple[int, bool]] = {}
        self.identities: dict[int, Identity] = {}
        """All processes of which something is known, as they were when they were first seen."""
        self.total: Span | None = None
        self._standstills: Standstills | None = None
        self._memory, self._growth = MemoryTrend(), MemoryGrowth()
        self.cost_us = 0
        """CPU time of all samples."""

    def step(self, closely: bool = False) -> Span | None:
        """Take a sample; the span since the one before it, None where it is the first.

        Parameters
        ----------
        closely
            Whether no count in it may be from a sample before.
        """
        if self._thread is not None:
            self._is_known(self._own)
        pids = [pid for pid in self._family.pids() if pid != self._own and self._is_known(pid)]
        own = self._own if self._thread is None else None
        sample = self._sampler.sample([*pids, self._own], closely, own)
        last, self.last = self.last, sample
        self.cost_us += sample.cost_us
        self._growth.step(sample)
        if last is None:
            return None
        if not self._threads or sample.threads.keys() != last.threads.keys():
            self._threads = Counter(thread.pid for thread in sample.threads.values())
            self._kinds.clear()
        span = difference(last, sample, self._kind)
        for pid in {one.pid for one in span.threads.values() if one.state == BLOCKED} & span.processes.keys():
            span.processes[pid] = replace(span.processes[pid], path=busiest_file(pid))
        others = self._others.step(span, sample.processes.keys())
        if others:
            span = replace(span, others=others)
        if self._standstills is None:
            # Another monitor may have watched before.
            self._standstills = Standstills(None if self.total is None else self.total.standstills)
        span = replace(
            span,
            standstills=self._standstills.step(span, sample.wall_us),
            filling=self._memory.step(sample, span),
            growing=self._growth.found(),
        )
        dropped = 0 if self.total is None else self.total.dropped_threads
        self.total = span if self.total is None else self.total.then(span)
        if self.total.dropped_threads != dropped:
            self._forget(sample.processes.keys() | self.total.processes.keys())
        return span

    def close(self) -> None:
        """End it."""
        self._sampler.close()

    def follow(self, roots: Sequence[int]) -> None:
        """Watch these as well, and all that they start."""
        self._family.follow([root for root in roots if root != self._own])

    def _forget(self, but: Collection[int]) -> None:
        """Let go of processes that have ended and did least, as the total does."""
        self.identities = {pid: one for pid, one in self.identities.items() if pid in but}
        self._openmp = {pid: one for pid, one in self._openmp.items() if pid in but}

    def _is_known(self, pid: int) -> bool:
        if pid not in self.identities:
            identity = read_identity(pid)
            if identity is None:
                return False
            self.identities[pid] = identity
        return True

    def _kind(self, pid: int, tid: int, name: str, process_name: str) -> str:
        key = tid, name, process_name
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._looked_up_kind(pid, tid, name, process_name)
        return kind

    def _looked_up_kind(self, pid: int, tid: int, name: str, process_name: str) -> str:
        if tid == self._thread or (pid == self._own and self._thread is None):
            return SAMPLER
        kind = kind_of(pid, tid, name, process_name, openmp=False)
        if kind == MAIN or name != process_name or process_name.startswith("python"):
            return kind
        return kind_of(pid, tid, name, process_name, self._has_openmp(pid))

    def _has_openmp(self, pid: int) -> bool:
        """Looked up once for each number of threads: libraries are loaded when they are needed."""
        threads = self._threads[pid]
        if pid not in self._openmp or self._openmp[pid][0] != threads:
            self._openmp[pid] = (threads, uses_openmp(pid))
        return self._openmp[pid][1]
