"""Reads the files of threads: of those that have not run since, as little as will do."""

from __future__ import annotations

import os
from collections.abc import Iterable

from chimbuko.monitor.procfs.task import TaskStat, TaskStatus, parse_schedstat, parse_stat, parse_status
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import ThreadCounters

ENDED = "ZX"
CLOSE_LOOK = 10
"""Samples between two looks at all files of a thread. Its ``status`` costs more than the others together."""
YOUNG = 8
"""Number of first samples in which each thread that has run is read closely, so that the counts of switches
of a short program are near the truth, too.
"""

DOZING = "SDI"
LITTLE_NS, SHORT_NS = 1_000_000, 50_000_000
"""A thread that was asleep, and ran and waited for less since, was woken for moments: its ticks of 10 ms
stand still, and it sleeps again. So its ``stat``, which costs three times as much as its ``schedstat``, is
read by turns, too, and as soon as it does not run at all."""

STAT_BYTES, SCHEDSTAT_BYTES = 1024, 128
"""Bytes to read of each file: more than 39 numbers and a name, and than three numbers."""
NOT_COUNTED = b"0 0 0\n"
"""``schedstat`` of each thread where the kernel was built, or started, without it."""


class ThreadReader:
    """One thread."""

    __slots__ = (
        "_awake_ran_ns", "_awake_waited_ns", "_counters", "_found", "_is_behind", "_pid", "_sched", "_slot",
        "_stat", "_stat_bytes", "_status", "_switches", "_times", "_young",
    )  # fmt: skip

    def __init__(self, files: ProcReader, pid: int, tid: int) -> None:
        folder = f"/proc/{pid}/task/{tid}/"
        self._pid = pid
        # Threads take turns, so that no sample costs more than others.
        self._slot = tid
        self._young = YOUNG
        self._stat, self._status = files.file(folder + "stat", STAT_BYTES), files.file(folder + "status")
        self._sched = files.file(folder + "schedstat", SCHEDSTAT_BYTES)
        self._stat_bytes = self._times = b""
        self._found: TaskStat | None = None
        self._switches: TaskStatus | None = None
        self._counters: ThreadCounters | None = None
        self._awake_ran_ns = self._awake_waited_ns = 0
        """Time in ns, run and waited, from which the thread has done something since its ``stat`` was
        read.
        """
        self._is_behind = False
        """Whether it has run since then."""

    def read(self, number: int, closely: bool = False) -> ThreadCounters | None:
        """Return a thread's counters, the same object as before if nothing has changed; None if it has ended.

        Switches and affinity are those of the last close look. For a thread that is woken for moments only,
        all but the times that it ran and waited are those of the last close look.

        Parameters
        ----------
        number
            Number of the sample, which decides which threads are looked at closely.
        closely
            Whether each thread is looked at closely.
        """
        times = self._sched.read()
        has_run = not times or times != self._times
        closely = closely or (has_run and self._young > 0) or (number + self._slot) % CLOSE_LOOK == 0
        if not closely and times != NOT_COUNTED:
            # Whatever changes a thread, also what stops or ends it, has it run for a moment.
            if not has_run and not self._is_behind:
                return self._counters
            if has_run and self._dozes(times):
                return self._counters
        stat = self._stat.read()
        self._is_behind = False
        if stat == self._stat_bytes and not has_run and not closely:
            return self._counters
        if stat != self._stat_bytes:
            self._stat_bytes, self._found = stat, parse_stat(stat)
        if closely or self._switches is None:
            self._switches = parse_status(self._status.read())
        found, switches = self._found, self._switches
        if found is None or switches is None or found.state in ENDED:
            self._end()
            return None
        self._times = times
        if self._young:
            self._young -= 1
        tid, name, state, _, minor, major, user, system, start, processor = found
        voluntary, involuntary, cpus = switches
        ran_ns, waited_ns, slices = parse_schedstat(times) or (None, None, None)
        self._awake_ran_ns, self._awake_waited_ns = (ran_ns or 0) + LITTLE_NS, (waited_ns or 0) + SHORT_NS
        now = ThreadCounters(
            self._pid, tid, name, state, start, user, system, minor, major, processor,
            voluntary, involuntary, cpus, ran_ns, waited_ns, slices,
        )  # fmt: skip
        if has_run or now != self._counters:
            self._counters = now
        return self._counters

    def _dozes(self, times: bytes) -> bool:
        """Whether it was asleep, and was woken for moments only; then these are counted."""
        before, sched = self._counters, parse_schedstat(times)
        if before is None or sched is None or before.state not in DOZING:
            return False
        ran_ns, waited_ns, _ = sched
        if ran_ns >= self._awake_ran_ns or waited_ns >= self._awake_waited_ns:
            return False
        self._times, self._is_behind = times, True
        # The times of the scheduler are the last fields.
        self._counters = ThreadCounters._make(before[: -len(sched)] + sched)
        return True

    def _end(self) -> None:
        """Forget the thread, as its number may come again for another one."""
        self.close()
        self._stat_bytes = self._times = b""
        self._found = self._switches = self._counters = None
        self._awake_ran_ns = self._awake_waited_ns = 0
        self._is_behind = False
        self._young = YOUNG

    def close(self) -> None:
        """Close its files."""
        for file in (self._stat, self._status, self._sched):
            file.close()


class ProcessThreads:
    """All threads of one process."""

    def __init__(self, files: ProcReader, pid: int) -> None:
        self._files = files
        self._pid = pid
        self._readers: dict[int, ThreadReader] = {}

    def read(self, number: int, count: int | None, closely: bool = False) -> dict[int, ThreadCounters]:
        """Return the counters of all living threads by number, as of a single one; none if the process ended.

        Parameters
        ----------
        count
            Number of threads that the process had just now; None if that is not known.
        """
        found = self._read(self._readers, number, closely)
        # Where all that were known live, and there are no more, none is new: to list them would cost a tenth
        # of the sample.
        if count == len(found) == len(self._readers):
            return found
        try:
            tids = list(map(int, os.listdir(f"/proc/{self._pid}/task")))
        except OSError:
            tids = []
        for tid in self._readers.keys() - set(tids):
            self._readers.pop(tid).close()
        new = [tid for tid in tids if tid not in self._readers]
        for tid in new:
            self._readers[tid] = ThreadReader(self._files, self._pid, tid)
        return found | self._read(new, number, closely)

    def _read(self, tids: Iterable[int], number: int, closely: bool) -> dict[int, ThreadCounters]:
        found = {}
        for tid in tids:
            counters = self._readers[tid].read(number, closely)
            if counters is not None:
                found[tid] = counters
        return found

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
