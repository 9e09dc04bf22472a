"""The control group of a process: memory that it may use, and time that it was denied."""

from __future__ import annotations

from pathlib import Path

from chimbuko.monitor.procfs.cgroup import parse_limit, parse_membership, parse_throttling
from chimbuko.monitor.procfs.numbers import counter
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import GroupCounters

MOUNT = Path("/sys/fs/cgroup")
_UNIFIED_MEMORY, _UNIFIED_CPU = ("memory.current", "memory.max"), "cpu.stat"
_OLD_MEMORY, _OLD_CPU = ("memory.usage_in_bytes", "memory.limit_in_bytes"), "cpu.stat"


class GroupReader:
    """Finds the files of a process's group once, and reads those of each group once in a sample."""

    def __init__(self, files: ProcReader, mount: Path = MOUNT) -> None:
        self._files = files
        self._mount = mount
        self._memberships: dict[int, bytes] = {}
        self._places: dict[bytes, tuple[str, str, str]] = {}
        self._limits: dict[str, int | None] = {}
        self._now: dict[bytes, GroupCounters | None] = {}

    def begin(self, closely: bool = True) -> None:
        """A new sample begins; one that looks ``closely`` asks again for groups and their limits."""
        self._now.clear()
        if closely:
            self._memberships.clear()
            self._limits.clear()

    def read(self, pid: int) -> GroupCounters | None:
        """Its group as it stands in this sample; None where control groups are not mounted."""
        if pid not in self._memberships:
            self._memberships[pid] = self._files.read(f"/proc/{pid}/cgroup")
        membership = self._memberships[pid]
        if membership not in self._now:
            self._now[membership] = self._counters(membership)
        return self._now[membership]

    def forget(self, pid: int) -> None:
        """A process has ended."""
        self._memberships.pop(pid, None)
        self._files.forget(f"/proc/{pid}/cgroup")

    def _counters(self, membership: bytes) -> GroupCounters | None:
        if membership not in self._places:
            self._places[membership] = self._find(membership)
        current, limit, cpu = self._places[membership]
        used = counter(self._files.read(current).strip()) if current else None
        throttled_us = parse_throttling(self._files.read(cpu)) if cpu else None
        if used is None and throttled_us is None:
            return None
        if limit not in self._limits:
            self._limits[limit] = parse_limit(self._files.read(limit)) if limit else None
        return GroupCounters(used or 0, self._limits[limit], throttled_us)

    def _find(self, membership: bytes) -> tuple[str, str, str]:
        """Paths of what is used, of the limit, and of the throttling; empty where there is none."""
        groups = parse_membership(membership)
        current = limit = cpu = ""
        if groups.unified is not None:
            # With both versions mounted, the newer one stands below the mount.
            for root in (self._mount, self._mount / "unified"):
                current, limit = current or _first(root, groups.unified, _UNIFIED_MEMORY[0]), limit
                limit = limit or _first(root, groups.unified, _UNIFIED_MEMORY[1])
                cpu = cpu or _first(root, groups.unified, _UNIFIED_CPU)
        if "memory" in groups.controllers and not current:
            root, group = self._mount / "memory", groups.controllers["memory"]
            current, limit = _first(root, group, _OLD_MEMORY[0]), _first(root, group, _OLD_MEMORY[1])
        if "cpu" in groups.controllers:
            root = self._mount / "cpu"
            cpu = _first(root, groups.controllers["cpu"], _OLD_CPU) or cpu
        return current, limit, cpu


def _first(root: Path, group: str, name: str) -> str:
    """A group's file; inside of a container the group itself is often what is mounted."""
    for folder in (root / group.lstrip("/"), root):
        if (folder / name).is_file():
            return str(folder / name)
    return ""
