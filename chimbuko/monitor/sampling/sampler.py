"""Takes samples of processes and of their node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from chimbuko.monitor.procfs.system import parse_cores, parse_meminfo, parse_pressure
from chimbuko.monitor.procfs.task import (
    TaskStatus,
    parse_io,
    parse_process_memory,
    parse_schedstat,
    parse_stat,
    parse_status,
)
from chimbuko.monitor.sampling.groupreader import GroupReader
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import ProcessCounters, Sample, ThreadCounters

THREAD_FILES = ("stat", "status", "schedstat")
PROCESS_FILES = ("status", "io", "cgroup")
CLOSE_LOOK = 10
"""Each of so many samples reads the affinity also of threads that have not run."""
PRESSURES = ("cpu", "memory", "io")


class Sampler:
    """Reads all threads of the processes that it is given, and the node.

    What ends between two samples, or while one is taken, is not in the later one.
    """

    def __init__(self) -> None:
        self._files = ProcReader()
        self._groups = GroupReader(self._files)
        self._last: dict[str, tuple[bytes, TaskStatus]] = {}
        """Of each thread by its folder: its times, and its switches and affinity."""
        self._now: dict[str, tuple[bytes, TaskStatus]] = {}
        self._pids: set[int] = set()
        self._samples = 0

    def sample(self, pids: Iterable[int]) -> Sample:
        """All of it at this moment."""
        began_ns = time.thread_time_ns()
        time_us, wall_us = time.monotonic_ns() // 1000, time.time_ns() // 1000
        self._now = {}
        self._samples += 1
        threads: dict[int, ThreadCounters] = {}
        processes: dict[int, ProcessCounters] = {}
        groups = {}
        for pid in pids:
            own = self._threads(pid)
            if not own:
                continue
            threads.update((thread.tid, thread) for thread in own)
            processes[pid] = self._process(pid)
            group = self._groups.read(pid)
            if group is not None:
                groups[pid] = group
        self._forget_ended(set(processes))
        read = self._files.read
        pressures = {name: parse_pressure(read(f"/proc/pressure/{name}")) for name in PRESSURES}
        return Sample(
            time_us=time_us,
            wall_us=wall_us,
            threads=threads,
            processes=processes,
            cores=parse_cores(read("/proc/stat")),
            memory=parse_meminfo(read("/proc/meminfo")),
            pressure={name: pressure for name, pressure in pressures.items() if pressure},
            groups=groups,
            cost_us=(time.thread_time_ns() - began_ns) // 1000,
        )

    def close(self) -> None:
        """Close all files."""
        self._files.close()

    def _threads(self, pid: int) -> list[ThreadCounters]:
        try:
            tids = os.listdir(f"/proc/{pid}/task")
        except OSError:
            return []
        found = (self._thread(pid, f"/proc/{pid}/task/{tid}/") for tid in tids)
        return [thread for thread in found if thread is not None]

    def _thread(self, pid: int, folder: str) -> ThreadCounters | None:
        read = self._files.read
        stat = parse_stat(read(folder + "stat"))
        if stat is None or stat.state in "ZX":
            return None
        times = read(folder + "schedstat")
        before = self._last.get(folder)
        if before is not None and times and before[0] == times and not self._looks_closely:
            # It has not run since, so that it has not been switched. Its affinity others may have changed.
            status: TaskStatus | None = before[1]
        else:
            status = parse_status(read(folder + "status"))
        if status is None:
            return None
        sched = parse_schedstat(times)
        ran_ns, waited_ns = sched if sched is not None else (None, None)
        self._now[folder] = (times, status)
        return ThreadCounters(
            pid,
            stat.tid,
            stat.name,
            stat.state,
            stat.start_ticks,
            stat.user_ticks,
            stat.system_ticks,
            stat.minor_faults,
            stat.major_faults,
            stat.processor,
            status.voluntary,
            status.involuntary,
            status.cpus,
            ran_ns,
            waited_ns,
        )

    @property
    def _looks_closely(self) -> bool:
        return self._samples % CLOSE_LOOK == 0

    def _process(self, pid: int) -> ProcessCounters:
        folder = f"/proc/{pid}/"
        memory = parse_process_memory(self._files.read(folder + "status"))
        return ProcessCounters(memory, parse_io(self._files.read(folder + "io")))

    def _forget_ended(self, pids: set[int]) -> None:
        for folder in self._last.keys() - self._now.keys():
            for name in THREAD_FILES:
                self._files.forget(folder + name)
        for pid in self._pids - pids:
            for name in PROCESS_FILES:
                self._files.forget(f"/proc/{pid}/{name}")
        self._last, self._pids = self._now, pids
