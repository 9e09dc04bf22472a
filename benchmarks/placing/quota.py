"""A share of a core for some processes: a CPU quota of a cgroup, of version 1 or 2, where one can be made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.system import parse_membership

PERIOD_US = 100_000
"""In which a quota is spent: the kernel's default, and that of container engines."""
PATIENCE_S = 20.0
"""Until the last process of a group that has ended is gone."""
V1_QUOTA, V2_QUOTA = "cpu.cfs_quota_us", "cpu.max"


@dataclass(frozen=True)
class Group:
    """A cgroup of ours."""

    folder: Path
    outer: Path
    """The group in which it was made."""

    def join(self) -> None:
        """Put this process, and what it starts from now on, into it."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Put this process back, and what it starts from now on."""
        (self.outer / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, cores: float | None) -> None:
        """All of its processes together get so much of a core from now on; None for as much as there is."""
        if (self.folder / V1_QUOTA).exists():
            (self.folder / V1_QUOTA).write_text("-1" if cores is None else f"{round(cores * PERIOD_US)}")
        else:
            quota = "max" if cores is None else f"{round(cores * PERIOD_US)}"
            (self.folder / V2_QUOTA).write_text(f"{quota} {PERIOD_US}")


def outer_groups(mounts: str, membership: bytes) -> list[Path]:
    """Where groups with a quota might be made: this process' own groups of the CPU controller.

    Parameters
    ----------
    mounts, membership
        ``/proc/mounts`` and ``/proc/self/cgroup``.
    """
    own = parse_membership(membership)
    found = []
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split()
        path = None
        if kind == "cgroup" and "cpu" in options.split(","):
            path = own.controllers.get("cpu")
        elif kind == "cgroup2":
            path = own.unified
        if path is not None:
            found.append(Path(place) / path.lstrip("/"))
    return found


@contextmanager
def quota_group() -> Iterator[Group]:
    """A group without a quota yet, until the end of the block.

    Raises
    ------
    ConfigError
        None can be made here, and why.
    """
    reasons = ["no cgroups are mounted"]
    outers = outer_groups(Path("/proc/mounts").read_text(), Path("/proc/self/cgroup").read_bytes())
    for outer in outers:
        try:
            group = _made(outer)
        except OSError as error:
            reasons.append(f"{error.filename}: {error.strerror}")
            continue
        try:
            yield group
        finally:
            _remove(group.folder)
        return
    raise ConfigError(f"no CPU quota can be given here ({reasons[-1]})")


def _made(outer: Path) -> Group:
    """Of either version; version 2 has quotas only where the outer group hands on its CPU controller."""
    folder = outer / f"chimbuko-quota-{os.getpid()}"
    folder.mkdir()
    try:
        if not (folder / V1_QUOTA).exists() and not (folder / V2_QUOTA).exists():
            (outer / "cgroup.subtree_control").write_text("+cpu")
        group = Group(folder, outer)
        group.limit(None)
    except OSError:
        folder.rmdir()
        raise
    return group


def _remove(folder: Path) -> None:
    """Once it is empty."""
    until_s = time.monotonic() + PATIENCE_S
    while (folder / "cgroup.procs").read_text() and time.monotonic() < until_s:
        time.sleep(0.02)
    folder.rmdir()
