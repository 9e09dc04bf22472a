"""Sampler of processes, their control groups, and their node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chimbuko.monitor.procfs.gpus import Gpus
from chimbuko.monitor.procfs.numbers import counter
from chimbuko.monitor.procfs.system import (
    NO_LIMIT_BYTES,
    parse_cores,
    parse_kills,
    parse_limit,
    parse_membership,
    parse_meminfo,
    parse_pressure,
    parse_throttling,
)
from chimbuko.monitor.procfs.task import parse_io, parse_process_memory, parse_stat, parse_thread_count
from chimbuko.monitor.sampling.others import niceness
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import (
    GroupCounters,
    GroupKills,
    ProcessCounters,
    Sample,
    ThreadCounters,
)
from chimbuko.monitor.sampling.span import TICKS_PER_S
from chimbuko.monitor.sampling.threadreader import ProcessThreads

MOUNT = Path("/sys/fs/cgroup")
_CPU = "cpu.stat"
_UNIFIED_MEMORY = "memory.current", "memory.max", "memory.events", "memory.peak"
_OLD_MEMORY = (
    *("memory.usage_in_bytes", "memory.limit_in_bytes"),
    *("memory.oom_control", "memory.max_usage_in_bytes"),
)


class GroupFiles(NamedTuple):
    """Paths of the files of a group; empty if there is none."""

    used: str = ""
    limit: str = ""
    kills: str = ""
    peak: str = ""
    cpu: str = ""


class GroupReader:
    """Finds the files of a process's group once, and reads those of each group once in a sample."""

    def __init__(self, files: ProcReader, mount: Path = MOUNT) -> None:
        self._files = files
        self._mount = mount
        self._memberships: dict[int, bytes] = {}
        self._places: dict[bytes, GroupFiles] = {}
        self._limits: dict[str, int | None] = {}
        self._now: dict[bytes, GroupCounters | None] = {}

    def begin(self, closely: bool = True) -> None:
        """Begin a new sample; one that looks ``closely`` asks again for groups and their limits."""
        self._now.clear()
        if closely:
            self._memberships.clear()
            self._limits.clear()

    def read(self, pid: int) -> GroupCounters | None:
        """Return the counters of a process's group in this sample; None if control groups are not mounted."""
        if pid not in self._memberships:
            self._memberships[pid] = self._files.read(f"/proc/{pid}/cgroup")
        membership = self._memberships[pid]
        if membership not in self._now:
            self._now[membership] = self._counters(membership)
        return self._now[membership]

    def forget(self, pid: int) -> None:
        """Forget a process that has ended."""
        self._memberships.pop(pid, None)
        self._files.forget(f"/proc/{pid}/cgroup")

    def _counters(self, membership: bytes) -> GroupCounters | None:
        if membership not in self._places:
            self._places[membership] = self._find(membership)
        files = self._places[membership]
        used = counter(self._files.read(files.used).strip()) if files.used else None
        throttled_us = parse_throttling(self._files.read(files.cpu)) if files.cpu else None
        if used is None and throttled_us is None:
            return None
        return GroupCounters(used or 0, self._limit(files.limit), throttled_us)

    def _limit(self, path: str) -> int | None:
        if path not in self._limits:
            self._limits[path] = parse_limit(self._files.read(path)) if path else None
        return self._limits[path]

    def kills(self) -> dict[str, GroupKills]:
        """Return the processes that were killed for memory so far, of all groups in which one was seen."""
        found = {}
        for files in self._places.values():
            count = parse_kills(self._files.read(files.kills)) if files.kills else None
            if count:
                peak_bytes = counter(self._files.read(files.peak).strip()) if files.peak else None
                found[files.kills] = GroupKills(count, peak_bytes or 0, self._limit(files.limit))
            elif count == 0:
                found[files.kills] = GroupKills(0)
        return found

    def _find(self, membership: bytes) -> GroupFiles:
        groups = parse_membership(membership)
        found = GroupFiles()
        if groups.unified is not None:
            # With both versions mounted, the newer one stands below the mount.
            for root in (self._mount, self._mount / "unified"):
                levels = _levels(root, groups.unified)
                cpu = _throttled(levels, lambda folder: (folder / "cpu.max").read_text().split()[0] != "max")
                paths = (*_memory(levels, _UNIFIED_MEMORY), cpu)
                found = GroupFiles._make(old or new for old, new in zip(found, paths, strict=True))
        if "memory" in groups.controllers and not found.used:
            levels = _levels(self._mount / "memory", groups.controllers["memory"])
            found = GroupFiles._make((*_memory(levels, _OLD_MEMORY), found.cpu))
        if "cpu" in groups.controllers:
            levels = _levels(self._mount / "cpu", groups.controllers["cpu"])
            cpu = _throttled(levels, lambda folder: int((folder / "cpu.cfs_quota_us").read_text()) > 0)
            found = found._replace(cpu=cpu or found.cpu)
        return found


def _levels(root: Path, group: str) -> list[Path]:
    """Return the folders of a group and of those around it, the innermost first: inside of a container the
    group itself is often what is mounted.
    """
    inner = root / group.lstrip("/")
    return [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root) and folder.is_dir()]


def _memory(levels: list[Path], names: tuple[str, str, str, str]) -> list[str]:
    """Return the files of what is used, its limit, those killed and the most used. The limit that counts is
    the least one: Slurm and Kubernetes set it for a group around that of the process.
    """
    counting = [folder for folder in levels if (folder / names[0]).is_file()]
    if not counting:
        return [""] * len(names)
    inner = counting[0]
    # In version 1 a group may not count those inside it.
    if _text(inner / "memory.use_hierarchy").strip() == "0":
        counting = [inner]

    def limit(folder: Path) -> int:
        return parse_limit(_text(folder / names[1]).encode()) or NO_LIMIT_BYTES

    least = min(counting, key=limit)
    paths = [folder / name for folder, name in zip((least, least, inner, least), names, strict=True)]
    return [str(path) if path.is_file() else "" for path in paths]


def _throttled(levels: list[Path], has_share: Callable[[Path], bool]) -> str:
    """Return the file that says how often a group was kept from its cores: that of the innermost one with a
    share of its own, as the groups inside it do not count that.
    """
    counting = [folder for folder in levels if (folder / _CPU).is_file()]
    for folder in counting:
        with suppress(OSError, ValueError, IndexError):
            if has_share(folder):
                return str(folder / _CPU)
    return str(counting[0] / _CPU) if counting else ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


PROCESS_FILES = ("status", "io", "stat")
CLOSELY_EVERY = 10
"""Samples between two looks at which control groups processes are in, and at what the sampler itself uses."""
PRESSURES = {name: f"/proc/pressure/{name}" for name in ("cpu", "memory", "io")}


class Sampler:
    """Reads all threads of the processes that it is given, and the node.

    What ends between two samples, or while one is taken, is not in the later one.

    Parameters
    ----------
    has_io
        Whether it reads what processes have read from storage and written to it.
    """

    def __init__(
        self, files: ProcReader | None = None, gpus: Gpus | None = None, has_io: bool = True
    ) -> None:
        self._files = files or ProcReader()
        self._groups = GroupReader(self._files)
        self._gpus = gpus
        self._has_io = has_io
        self._threads: dict[int, ProcessThreads] = {}
        self._own: tuple[int | None, ProcessCounters] | None = None
        self._samples = 0

    def sample(self, pids: Iterable[int], closely: bool = False, own: int | None = None) -> Sample:
        """Take a sample at this moment.

        Parameters
        ----------
        closely
            Whether no count is from a sample before.
        own
            The process among them that only samples: its memory, its storage and the number of its threads
            are looked at every ``CLOSELY_EVERY`` samples.
        """
        began_ns = time.thread_time_ns()
        time_us, wall_us = time.monotonic_ns() // 1000, time.time_ns() // 1000
        boot_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S)
        self._samples += 1
        is_close = closely or self._samples % CLOSELY_EVERY == 0
        # At first a program may still be moved into its group.
        self._groups.begin(is_close or self._samples <= CLOSELY_EVERY)
        threads: dict[int, ThreadCounters] = {}
        processes: dict[int, ProcessCounters] = {}
        groups = {}
        for pid in pids:
            if pid not in self._threads:
                self._threads[pid] = ProcessThreads(self._files, pid)
            if pid != own:
                count, process = self._process(pid)
            else:
                if self._own is None or is_close:
                    self._own = self._process(pid)
                count, process = self._own
            found = self._threads[pid].read(self._samples, count, closely)
            if not found:
                continue
            threads.update(found)
            processes[pid] = process
            group = self._groups.read(pid)
            if group is not None:
                groups[pid] = group
        for pid in self._threads.keys() - processes.keys():
            self._forget(pid)
        read = self._files.read
        pressures = {name: parse_pressure(read(path)) for name, path in PRESSURES.items()}
        return Sample(
            time_us=time_us,
            wall_us=wall_us,
            boot_ticks=boot_ticks,
            threads=threads,
            processes=processes,
            cores=parse_cores(read("/proc/stat")),
            memory=parse_meminfo(read("/proc/meminfo")),
            pressure_us={name: us for name, us in pressures.items() if us is not None},
            groups=groups,
            kills=self._groups.kills(),
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

    def _process(self, pid: int) -> tuple[int | None, ProcessCounters]:
        """Return the number of threads of a process, and its counters."""
        read = self._files.read
        status, stat = read(f"/proc/{pid}/status"), parse_stat(read(f"/proc/{pid}/stat"))
        cpu_ticks = stat.user_ticks + stat.system_ticks if stat is not None else 0
        io = parse_io(read(f"/proc/{pid}/io")) if self._has_io else None
        count, memory = parse_thread_count(status), parse_process_memory(status)
        return count, ProcessCounters(memory, io, cpu_ticks, niceness(pid), count or 1)

    def _forget(self, pid: int) -> None:
        self._threads.pop(pid).close()
        self._groups.forget(pid)
        for name in PROCESS_FILES:
            self._files.forget(f"/proc/{pid}/{name}")
