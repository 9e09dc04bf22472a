"""Room that a folder has left: of its file system and, where that is memory, of who is charged for it.

Pages of files in ``/dev/shm`` are charged to the cgroup of the process that writes them. Limits stand in
cgroups of version 1 or 2, or both are mounted at once, and those of all ancestors count.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_NO_LIMIT = 1 << 60
"""Version 1 writes a number near 2**63 for none, version 2 the word "max"."""


class Headroom(NamedTuple):
    """Bytes and files that may still be taken, and the owner of that memory."""

    left_bytes: int
    of: str
    """Owner of that memory, as in "the memory cgroup /job_7"."""


class _Level(NamedTuple):
    """One cgroup with a limit."""

    folder: str
    name: str
    limits: tuple[tuple[str, str], ...]
    """Files with a limit, and with what counts against it."""
    is_first_version: bool


_SECOND = (("memory.max", "memory.current"), ("memory.high", "memory.current"))
_FIRST = (
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
)


class MemoryLimits:
    """The limits that hold for a process.

    Parameters
    ----------
    pid
        The process: its number, or ``self``.
    root
        Folder in which ``proc`` and, under their mount points, the cgroups are found.
    """

    def __init__(self, pid: int | str = "self", root: Path | str = "/") -> None:
        self._root = os.fspath(root)
        self._pid = pid
        self._levels = list(self._found())

    def headroom(self, enough_bytes: int = _NO_LIMIT) -> Headroom | None:
        """The least of what is left; None if nothing about memory can be known.

        Page cache that the kernel can take back at any time is not counted as used, shared memory is; and
        neither is swap counted as room.

        Parameters
        ----------
        enough_bytes
            Where so much is left though page cache is counted as used, this is not looked up, which is
            dear: the answer is then too low, but not below this.
        """
        found = [headroom for level in self._levels if (headroom := self._left(level, enough_bytes))]
        available = _field(self._text("proc/meminfo"), "MemAvailable:")
        if available is not None:
            found.append(Headroom(available * 1024, "the node"))
        return min(found, default=None)

    def _left(self, level: _Level, enough_bytes: int) -> Headroom | None:
        left = [
            limit - usage
            for limit_file, usage_file in level.limits
            if (limit := _number(_read(os.path.join(level.folder, limit_file)))) is not None
            and (usage := _number(_read(os.path.join(level.folder, usage_file)))) is not None
        ]
        if not left:
            return None
        least = min(left)
        if least < enough_bytes:
            least += _reclaimable(_read(os.path.join(level.folder, "memory.stat")), level.is_first_version)
        return Headroom(max(least, 0), f"the memory cgroup {level.name}")

    def _found(self) -> list[_Level]:
        levels: list[_Level] = []
        mounts = [line.split() for line in self._text("proc/self/mountinfo").splitlines()]
        for line in self._text(f"proc/{self._pid}/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            for fields in mounts:
                if self._is_memory(fields, is_first_version=bool(controllers)):
                    levels += self._ancestors(fields, path, bool(controllers))
                    break
        return levels

    def _is_memory(self, fields: list[str], is_first_version: bool) -> bool:
        """Whether a mount is that of the cgroups: fields behind the dash are kind, source, options."""
        kind, _, options = fields[fields.index("-") + 1 :][:3]
        return (
            (kind == "cgroup" and "memory" in options.split(",")) if is_first_version else kind == "cgroup2"
        )

    def _ancestors(self, fields: list[str], path: str, is_first_version: bool) -> list[_Level]:
        """Cgroups with a limit from that of the process up to what is mounted."""
        mounted, point = fields[3], os.path.join(self._root, _unescaped(fields[4]).lstrip("/"))
        inside = os.path.relpath(path, mounted) if path.startswith("/") else "."
        # In a container the process may be outside of what is mounted: then that is all one can see.
        inside = "." if inside.startswith("..") else inside
        levels: list[_Level] = []
        while True:
            folder = os.path.normpath(os.path.join(point, inside))
            limits = tuple(
                (limit, usage)
                for limit, usage in (_FIRST if is_first_version else _SECOND)
                if _number(_read(os.path.join(folder, limit))) is not None
            )
            counts_children = _read(os.path.join(folder, "memory.use_hierarchy")).strip() != "0"
            if limits and (not levels or counts_children):
                levels.append(_Level(folder, f"/{'' if inside == '.' else inside}", limits, is_first_version))
            if inside == ".":
                return levels
            inside = os.path.dirname(inside) or "."

    def _text(self, path: str) -> str:
        return _read(os.path.join(self._root, path))


def _reclaimable(stat: str, is_first_version: bool) -> int:
    """Page cache on the lists of files: pages of shared memory are on those of anonymous memory."""
    prefix = "total_" if is_first_version else ""
    dirty = ("total_dirty", "total_writeback") if is_first_version else ("file_dirty", "file_writeback")
    cached = sum(_field(stat, f"{prefix}{kind}_file") or 0 for kind in ("active", "inactive"))
    return max(cached - sum(_field(stat, name) or 0 for name in dirty), 0)


def _field(text: str, name: str) -> int | None:
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == name:
            return _number(fields[1])
    return None


def _number(text: str) -> int | None:
    """Return a limit as a number, or None if there is no limit or the text is no number."""
    digits = text.strip()
    return int(digits) if digits.isdigit() and int(digits) < _NO_LIMIT else None


def _unescaped(point: str) -> str:
    """Blanks in mount points are written in octal."""
    return point.encode().decode("unicode_escape")


def _read(path: str) -> str:
    """Return the text of a file; empty if this kernel does not have it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_IN_MEMORY = frozenset({0x01021994, 0x858458F6, 0x958458F6})
"""The kernel's numbers for tmpfs, ramfs and hugetlbfs."""
_libc = ctypes.CDLL(None, use_errno=True)


class Room:
    """The room in a folder, as it changes.

    Parameters
    ----------
    folder
        It exists.
    root
        As of ``MemoryLimits``.
    """

    def __init__(self, folder: Path | str, root: Path | str = "/") -> None:
        self._folder = os.fspath(folder)
        self._root = root
        self.is_memory = is_memory(folder)
        self.look_anew(["self"])

    def look_anew(self, pids: Iterable[int | str]) -> None:
        """Find the limits of these processes, which write there; limits come and go."""
        self._limits = [MemoryLimits(pid, self._root) for pid in pids] if self.is_memory else []

    def left(self, enough_bytes: int) -> Headroom:
        """Return the least that is left; where it is more than ``enough_bytes``, it may be more than is said.

        Raises
        ------
        OSError
            The folder is gone.
        """
        system = os.statvfs(self._folder)
        # A tmpfs without a size has no blocks: then memory alone is the limit.
        free = system.f_bavail * system.f_frsize if system.f_blocks else 1 << 62
        found = [headroom for limits in self._limits if (headroom := limits.headroom(enough_bytes))]
        return min([*found, Headroom(free, "the file system")])

    def free_files(self) -> int | None:
        """Return the number of files that can still be made; None if the file system knows no limit."""
        system = os.statvfs(self._folder)
        return system.f_favail if system.f_files else None


def is_memory(folder: Path | str) -> bool:
    """Whether files in a folder are pages of memory.

    Raises
    ------
    OSError
        The folder is not there.
    """
    answer = (ctypes.c_long * 32)()
    if _libc.statfs(os.fsencode(folder), ctypes.byref(answer)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(folder))
    return (answer[0] & 0xFFFFFFFF) in _IN_MEMORY
