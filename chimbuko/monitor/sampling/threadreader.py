"""Reads the files of threads: of those that have not run since, as little as will do."""

from __future__ import annotations

import os

from chimbuko.monitor.procfs.task import TaskStatus, parse_schedstat, parse_stat, parse_status
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import ThreadCounters

ENDED = "ZX"


class ThreadReader:
    """One thread."""

    __slots__ = ("_counters", "_pid", "_sched", "_stat", "_stat_bytes", "_status", "_switches", "_times")

    def __init__(self, files: ProcReader, pid: int, tid: str) -> None:
        folder = f"/proc/{pid}/task/{tid}/"
        self._pid = pid
        self._stat, self._status, self._sched = (
            files.file(folder + name) for name in ("stat", "status", "schedstat")
        )
        self._stat_bytes = self._times = b""
        self._switches: TaskStatus | None = None
        self._counters: ThreadCounters | None = None

    def read(self, closely: bool) -> ThreadCounters | None:
        """Its counters now, the same object as before where nothing has changed; None where it has ended.

        A thread that has not run since has not been switched. Its affinity others may have changed, which
        is only seen where it is looked at ``closely``.
        """
        stat, times = self._stat.read(), self._sched.read()
        has_run = not times or times != self._times
        if stat == self._stat_bytes and not has_run and not closely:
            return self._counters
        self._stat_bytes = stat
        found = parse_stat(stat)
        if found is None or found.state in ENDED:
            self._counters = None
            return None
        if has_run or closely or self._switches is None:
            self._switches = parse_status(self._status.read())
        self._times = times
        if self._switches is None:
            self._counters = None
            return None
        tid, name, state, _, minor, major, user, system, start, processor = found
        voluntary, involuntary, cpus = self._switches
        ran_ns, waited_ns, _ = parse_schedstat(times) or (None, None, None)
        self._counters = ThreadCounters(
            self._pid, tid, name, state, start, user, system, minor, major, processor,
            voluntary, involuntary, cpus, ran_ns, waited_ns,
        )  # fmt: skip
        return self._counters

    def close(self) -> None:
        """Close its files."""
        for file in (self._stat, self._status, self._sched):
            file.close()


class ProcessThreads:
    """All threads of one process."""

    def __init__(self, files: ProcReader, pid: int) -> None:
        self._files = files
        self._pid = pid
        self._readers: dict[str, ThreadReader] = {}

    def read(self, closely: bool) -> list[ThreadCounters]:
        """Those that live; none where the process has ended."""
        try:
            tids = os.listdir(f"/proc/{self._pid}/task")
        except OSError:
            tids = []
        readers, found = self._readers, []
        for tid in tids:
            reader = readers.get(tid)
            if reader is None:
                reader = readers[tid] = ThreadReader(self._files, self._pid, tid)
            counters = reader.read(closely)
            if counters is not None:
                found.append(counters)
        if len(readers) > len(tids):
            for tid in readers.keys() - set(tids):
                readers.pop(tid).close()
        return found

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
