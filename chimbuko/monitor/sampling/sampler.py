"""Takes samples of processes and of their node."""

from __future__ import annotations

import time
from collections.abc import Iterable

from chimbuko.monitor.gpus.present import Gpus
from chimbuko.monitor.procfs.system import parse_cores, parse_meminfo, parse_pressure
from chimbuko.monitor.procfs.task import parse_io, parse_process_memory, parse_stat
from chimbuko.monitor.sampling.groupreader import GroupReader
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import ProcessCounters, Sample, ThreadCounters
from chimbuko.monitor.sampling.span import TICKS_PER_S
from chimbuko.monitor.sampling.threadreader import ProcessThreads

PROCESS_FILES = ("status", "io", "stat")
GROUPS_EVERY = 10
"""Samples between two looks at which control groups processes are in."""
PRESSURES = ("cpu", "memory", "io")


class Sampler:
    """Reads all threads of the processes that it is given, and the node.

    What ends between two samples, or while one is taken, is not in the later one.
    """

    def __init__(self, files: ProcReader | None = None, gpus: Gpus | None = None) -> None:
        self._files = files or ProcReader()
        self._groups = GroupReader(self._files)
        self._gpus = gpus
        self._threads: dict[int, ProcessThreads] = {}
        self._samples = 0

    def sample(self, pids: Iterable[int], closely: bool = False) -> Sample:
        """All of it at this moment.

        Parameters
        ----------
        closely
            Whether no count is from a sample before.
        """
        began_ns = time.thread_time_ns()
        time_us, wall_us = time.monotonic_ns() // 1000, time.time_ns() // 1000
        boot_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S)
        self._samples += 1
        self._groups.begin(self._samples % GROUPS_EVERY == 0)
        threads: dict[int, ThreadCounters] = {}
        processes: dict[int, ProcessCounters] = {}
        groups = {}
        for pid in pids:
            if pid not in self._threads:
                self._threads[pid] = ProcessThreads(self._files, pid)
            own = self._threads[pid].read(self._samples, closely)
            if not own:
                continue
            for thread in own:
                threads[thread.tid] = thread
            processes[pid] = self._process(pid)
            group = self._groups.read(pid)
            if group is not None:
                groups[pid] = group
        for pid in self._threads.keys() - processes.keys():
            self._forget(pid)
        read = self._files.read
        pressures = {name: parse_pressure(read(f"/proc/pressure/{name}")) for name in PRESSURES}
        return Sample(
            time_us=time_us,
            wall_us=wall_us,
            boot_ticks=boot_ticks,
            threads=threads,
            processes=processes,
            cores=parse_cores(read("/proc/stat")),
            memory=parse_meminfo(read("/proc/meminfo")),
            pressure={name: pressure for name, pressure in pressures.items() if pressure},
            groups=groups,
            gpus=self._gpus.read() if self._gpus is not None else {},
            cost_us=(time.thread_time_ns() - began_ns) // 1000,
        )

    def close(self) -> None:
        """Close all files."""
        for pid in list(self._threads):
            self._forget(pid)
        self._files.close()
        if self._gpus is not None:
            self._gpus.close()

    def _process(self, pid: int) -> ProcessCounters:
        read = self._files.read
        memory = parse_process_memory(read(f"/proc/{pid}/status"))
        stat = parse_stat(read(f"/proc/{pid}/stat"))
        cpu_ticks = stat.user_ticks + stat.system_ticks if stat is not None else 0
        return ProcessCounters(memory, parse_io(read(f"/proc/{pid}/io")), cpu_ticks)

    def _forget(self, pid: int) -> None:
        self._threads.pop(pid).close()
        self._groups.forget(pid)
        for name in PROCESS_FILES:
            self._files.forget(f"/proc/{pid}/{name}")
