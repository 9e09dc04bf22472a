"""How much of its time a process could do anything in: what it waited for a core does not count."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chimbuko.monitor.procfs.task import parse_schedstat, parse_stat

_RUNNABLE, _STOPPED = "R", "Tt"
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class CoreUse(NamedTuple):
    """What the kernel says of a process's main thread."""

    state: str
    """A letter, as in ``TaskStat``."""
    ran_ns: int
    waited_ns: int
    """For a core. A wait counts when it is over."""

    @property
    def is_stopped(self) -> bool:
        """By a signal: it would notice nothing."""
        return self.state in _STOPPED


def core_use(pid: int) -> CoreUse | None:
    """Of a process until now; None where it is gone. A kernel may not say what it waited."""
    folder = Path(f"/proc/{pid}")
    times = None
    try:
        stat = parse_stat((folder / "stat").read_bytes())
        with suppress(FileNotFoundError):
            times = parse_schedstat((folder / "schedstat").read_bytes())
    except OSError:
        return None
    if stat is None:
        return None
    if times is None:
        return CoreUse(stat.state, (stat.user_ticks + stat.system_ticks) * _TICK_NS, 0)
    return CoreUse(stat.state, times.ran_ns, times.waited_ns)


def own_time_s(before: CoreUse | None, now: CoreUse | None, passed_s: float) -> float:
    """Time in which a process ran or slept, of ``passed_s`` seconds; all of it where nothing is known."""
    if before is None or now is None:
        return passed_s
    if now.state == _RUNNABLE and now.ran_ns == before.ran_ns:
        # It waits still, so that the kernel has not counted it.
        return 0.0
    return max(passed_s - (now.waited_ns - before.waited_ns) / 1e9, 0.0)
