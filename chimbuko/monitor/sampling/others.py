"""Processes of others on the cores of a program: looked for only while somebody takes them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection

from chimbuko.monitor.procfs.task import TaskStat, parse_stat
from chimbuko.monitor.sampling.ownrun import OwnRun
from chimbuko.monitor.sampling.procreader import read_once
from chimbuko.monitor.sampling.span import TICKS_PER_S, OtherLoad, Span

LOOK_SHARE = 0.10
"""Load of others on a program's cores from which it is looked whose it is: half of what is reported."""


def foreign_s(span: Span, cpus: Collection[int]) -> float:
    """CPU time on some cores that is not of the threads that may run there, nor of others of their processes
    which nobody saw, as they lived for short.
    """
    cores = [span.cores[cpu] for cpu in cpus if cpu in span.cores]
    # What the host of a virtual machine takes is no process's.
    busy_s = sum(core.busy_s - core.steal_s for core in cores)
    may = frozenset(cpus)
    own_s = 0.0
    unseen_s = {pid: one.cpu_s for pid, one in span.processes.items()}
    there = set()
    for one in span.threads.values():
        ran_s = one.user_s + one.system_s
        if not may.isdisjoint(one.cpus):
            own_s += ran_s
            there.add(one.pid)
        unseen_s[one.pid] = unseen_s.get(one.pid, 0.0) - ran_s
    return max(0.0, busy_s - own_s - sum(max(0.0, unseen_s[pid]) for pid in there))


LOOK_EVERY = 10
"""Periods between two looks while the load goes on for long, since one reads a file of each process of the
node."""


class Others:
    """CPU time of processes that are not watched, from one look to the next."""

    def __init__(self) -> None:
        self._run = OwnRun()
        self._last: dict[int, TaskStat] = {}
        self._looks = 0
        self._waits = 0

    def step(self, span: Span, watched: Collection[int]) -> dict[tuple[str, str], OtherLoad]:
        """Return the load of other processes, by name and user, on the watched cores since the last look.

        It is empty if the load of others is low, in periods without a look, and if ``/proc`` does not show
        whose processes they are.
        """
        # Most threads have the same list, as one object.
        masks = {id(one.cpus): one.cpus for one in span.threads.values()}
        cpus = {cpu for mask in masks.values() for cpu in mask}
        cores = [core for cpu, core in span.cores.items() if cpu in cpus]
        busy_s = sum(core.busy_s for core in cores)
        much_s = LOOK_SHARE * (busy_s + sum(core.idle_s for core in cores))
        # Where they are idle nobody takes them: to add up who did what is spared then.
        if much_s <= 0 or busy_s < much_s or foreign_s(span, cpus) < much_s:
            self._last, self._looks, self._waits = {}, 0, 0
            return {}
        if self._waits > 0:
            self._waits -= 1
            return {}
        self._looks += 1
        # The second look, which is the first that finds something, comes at once, and who is there for some
        # seconds only would be gone if it were long until the next ones.
        self._waits = min(self._looks, LOOK_EVERY) - 1
        before, self._last = self._last, _processes(watched)
        newest = max((one.start_ticks for one in before.values()), default=None)
        found: dict[tuple[str, str], OtherLoad] = {}
        for pid, now in self._last.items():
            earlier = before.get(pid)
            same = earlier is not None and earlier.start_ticks == now.start_ticks
            if now.processor not in cpus or newest is None or not (same or now.start_ticks > newest):
                continue
            ticks = now.user_ticks + now.system_ticks
            if same and earlier is not None:
                ticks -= earlier.user_ticks + earlier.system_ticks
            if ticks > 0:
                name = self._run.name_in_samples(now, stat_of, watched)
                one = OtherLoad(ticks / TICKS_PER_S, 1, niceness(pid), _cpus_of(pid))
                before_it = found.get((name, _user(pid)))
                found[name, _user(pid)] = one if before_it is None else before_it.beside(one)
        return found


def niceness(pid: int) -> int:
    """Return the niceness of a process; 0 if it is gone."""
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return 0


def _cpus_of(pid: int) -> frozenset[int]:
    """Return the hardware threads that a process may use; none if it is gone."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return frozenset()


def stat_of(pid: int) -> TaskStat | None:
    """Return what a process is now; None if it is gone."""
    return parse_stat(read_once(f"/proc/{pid}/stat"))


def _processes(but: Collection[int]) -> dict[int, TaskStat]:
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in but:
            continue
        stat = stat_of(int(name))
        if stat is not None:
            found[stat.tid] = stat
    return found


def _user(pid: int) -> str:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "ended"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
