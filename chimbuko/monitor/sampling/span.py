"""Activity of a node between two moments, as values that add up over time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from operator import add
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from chimbuko.monitor.procfs.gpuspan import GpuSpan
from chimbuko.monitor.procfs.system import CoreTicks, NodeMemory
from chimbuko.monitor.sampling.sample import GroupCounters, GroupKills

K = TypeVar("K")
T = TypeVar("T")
TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
MOST_ENDED = 512
"""Threads that have ended are kept up to so many; then the least busy ones are only counted."""


class ThreadSpan(msgspec.Struct):
    """One thread. It is never changed; ``frozen`` would make it cost three times as much, each period."""

    pid: int
    tid: int
    name: str
    kind: str
    cpus: tuple[int, ...]
    """CPUs on which the thread may run."""
    seconds: float
    """Time in seconds for which the thread was watched."""
    user_s: float
    system_s: float
    voluntary: int = 0
    involuntary: int = 0
    waited_s: float | None = None
    """While it could have run and its core was another's; None if that is not known."""
    minor_faults: int = 0
    major_faults: int = 0
    migrations: int = 0
    """Number of times that the thread was found on another hardware thread than before."""
    processor: int = -1
    """Hardware thread on which it ran last; -1 if that is not known."""
    state: str = "S"
    """State at the end, the kernel's letter."""
    periods: int = 1
    still_periods: int = 0
    """Number of periods before the end in which the thread slept and did not run at all."""
    ended: bool = False
    blocked_periods: int = 0
    """Periods at whose end it waited for storage."""

    @property
    def busy_share(self) -> float:
        """Share of the time in which the thread ran."""
        return (self.user_s + self.system_s) / self.seconds if self.seconds > 0 else 0.0

    @property
    def waited_share(self) -> float | None:
        """Share of the time in which the thread waited for a core; None if that is not known."""
        return None if self.waited_s is None or self.seconds <= 0 else self.waited_s / self.seconds

    def then(self, later: ThreadSpan) -> ThreadSpan:
        """Return both spans as one."""
        waited = None if self.waited_s is None or later.waited_s is None else self.waited_s + later.waited_s
        still = self.still_periods if later.still_periods == later.periods else 0
        return ThreadSpan(
            later.pid,
            later.tid,
            later.name,
            later.kind,
            later.cpus,
            self.seconds + later.seconds,
            self.user_s + later.user_s,
            self.system_s + later.system_s,
            self.voluntary + later.voluntary,
            self.involuntary + later.involuntary,
            waited,
            self.minor_faults + later.minor_faults,
            self.major_faults + later.major_faults,
            self.migrations + later.migrations,
            later.processor,
            later.state,
            self.periods + later.periods,
            still + later.still_periods,
            later.ended,
            self.blocked_periods + later.blocked_periods,
        )


class CoreSpan(msgspec.Struct):
    """One hardware thread of the node. It is never changed; see ``ThreadSpan``."""

    cpu: int
    ticks: CoreTicks
    """Time of the core in the kernel's ticks."""

    @property
    def user_s(self) -> float:
        """Time in seconds that the core spent in programs, also those of a guest."""
        ticks = self.ticks
        return (max(ticks.user, ticks.guest) + max(ticks.nice, ticks.guest_nice)) / TICKS_PER_S

    @property
    def system_s(self) -> float:
        """Time in seconds that the core spent in the kernel."""
        return (self.ticks.system + self.ticks.irq + self.ticks.softirq) / TICKS_PER_S

    @property
    def idle_s(self) -> float:
        """Without anything to do, or with nothing but to wait for storage."""
        return (self.ticks.idle + self.ticks.iowait) / TICKS_PER_S

    @property
    def iowait_s(self) -> float:
        """Idle while a thread waited for storage."""
        return self.ticks.iowait / TICKS_PER_S

    @property
    def steal_s(self) -> float:
        """Taken by the host of a virtual machine."""
        return self.ticks.steal / TICKS_PER_S

    @property
    def details(self) -> dict[str, float]:
        """Seconds by the names of the kernel, and those of sums that ZeroSum has."""
        ticks = self.ticks
        # Time of guests is also counted as that of users.
        user, nice = max(0, ticks.user - ticks.guest), max(0, ticks.nice - ticks.guest_nice)
        system_all = ticks.system + ticks.irq + ticks.softirq
        idle_all = ticks.idle + ticks.iowait
        virtual = ticks.guest + ticks.guest_nice
        counted = {
            **ticks._asdict(),
            "user": user,
            "nice": nice,
            "system_all": system_all,
            "idle_all": idle_all,
            "virt_all_time": virtual,
            "total_time": user + nice + system_all + idle_all + ticks.steal + virtual,
        }
        return {name: value / TICKS_PER_S for name, value in counted.items()}

    @property
    def total_s(self) -> float:
        """Time of the core in all states, in seconds."""
        return self.busy_s + self.idle_s

    @property
    def busy_s(self) -> float:
        """All but idle."""
        return self.user_s + self.system_s + self.steal_s

    def share(self, seconds: float) -> float:
        """Seconds as a share of the whole."""
        return seconds / self.total_s if self.total_s > 0 else 0.0

    def then(self, later: CoreSpan) -> CoreSpan:
        """Return both spans as one."""
        return CoreSpan(self.cpu, CoreTicks._make(map(add, self.ticks, later.ticks)))


class Growth(msgspec.Struct, frozen=True):
    """Memory of which a process took more all the time."""

    pid: int
    name: str
    bytes: int
    """How much more it had at the end than when it was first seen."""
    at_end_bytes: int
    seconds: float


class ProcessSpan(msgspec.Struct):
    """One process: memory at the end, and what it has read and written. Never changed; see ``ThreadSpan``."""

    pid: int
    resident_bytes: int
    peak_bytes: int
    read_bytes: int = 0
    written_bytes: int = 0
    group: GroupCounters | None = None
    """Control group of the process at the end."""
    throttled_s: float = 0.0
    """Time in seconds for which the control group was kept from its cores."""
    cpu_s: float = 0.0
    """CPU time of all its threads, also of those that ended before anybody saw them; 0 if that is not
    known.
    """
    nice: int = 0
    """Niceness at the end: of 19, the kernel lets a process of 0 go first."""
    most_threads: int = 1
    """Most threads that the process had at a time."""
    path: str = ""
    """File that the process read or wrote when it last waited for storage."""
    swapped_bytes: int = 0
    """Memory of the process that was moved to storage, at the end."""

    def then(self, later: ProcessSpan) -> ProcessSpan:
        """Return both spans as one."""
        return ProcessSpan(
            self.pid,
            later.resident_bytes,
            max(self.peak_bytes, later.peak_bytes),
            self.read_bytes + later.read_bytes,
            self.written_bytes + later.written_bytes,
            later.group,
            self.throttled_s + later.throttled_s,
            self.cpu_s + later.cpu_s,
            later.nice,
            max(self.most_threads, later.most_threads),
            later.path or self.path,
            later.swapped_bytes,
        )


class OtherLoad(msgspec.Struct):
    """Processes of one name and user that are not watched. Never changed; see ``ThreadSpan``."""

    seconds: float
    """CPU time of these processes."""
    processes: int = 1
    """Most of these processes that ran between two looks."""
    nice: int = 0
    """Lowest niceness of any, which goes first."""
    cpus: frozenset[int] = frozenset()
    """Hardware threads that any of them may use; empty if that is not known."""

    def beside(self, other: OtherLoad) -> OtherLoad:
        """Return both at the same time as one."""
        return OtherLoad(
            self.seconds + other.seconds,
            self.processes + other.processes,
            min(self.nice, other.nice),
            self.cpus | other.cpus,
        )

    def then(self, later: OtherLoad) -> OtherLoad:
        """Return both spans as one."""
        return OtherLoad(
            self.seconds + later.seconds,
            max(self.processes, later.processes),
            min(self.nice, later.nice),
            self.cpus | later.cpus,
        )


class Filling(msgspec.Struct, frozen=True):
    """Memory that fills period by period."""

    taken_bytes: int
    limit_bytes: int
    bytes_per_s: float
    full_us: int
    """Time at which it will be full if that goes on, in µs since 1970."""
    is_of_group: bool
    """Whether the limit is that of the program's control group; else it is the node's memory."""
    pid: int
    """Watched process that holds most; 0 if none is known."""


class ThreadWait(msgspec.Struct, frozen=True):
    """Wait of a thread of a process that stands still."""

    tid: int
    name: str
    awaited: int = 0
    """Thread that holds the mutex which this one waits for, or whose end it waits for; 0 if that is not
    known.
    """
    is_mutex: bool = False
    """Whether it waits for a mutex of the C library, whose holder is known."""
    is_inside: bool = False
    """Whether only a thread of the same process can end the wait, and no time does."""
    is_for_a_time: bool = False
    """Whether it sleeps until a time that it has named."""


class Standstill(msgspec.Struct, frozen=True):
    """Process none of whose threads runs. Times are µs since 1970."""

    pid: int
    begin_us: int
    end_us: int
    """When it was last seen so."""
    waits: tuple[ThreadWait, ...]
    is_deadlock: bool
    """Whether its threads wait for each other for ever."""
    has_ended: bool = False
    """Whether it stood still until it was ended."""


class Span(msgspec.Struct):
    """A node for some time. It is never changed; see ``ThreadSpan``."""

    seconds: float
    threads: dict[int, ThreadSpan]
    processes: dict[int, ProcessSpan] = msgspec.field(default_factory=dict)
    cores: dict[int, CoreSpan] = msgspec.field(default_factory=dict)
    """Cores by number; empty if nothing is known of them."""
    memory: NodeMemory | None = None
    """Memory at the end."""
    least_available_bytes: int | None = None
    pressure_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Time in which some task of the node waited for ``cpu``, ``memory`` or ``io``, in seconds."""
    others: dict[tuple[str, str], OtherLoad] = msgspec.field(default_factory=dict)
    """Processes that are not watched, by name and user, as far as it was looked for."""
    kills: dict[str, GroupKills] = msgspec.field(default_factory=dict)
    """Control groups in which the kernel killed processes for memory, with how many of them."""
    gpus: dict[int, GpuSpan] = msgspec.field(default_factory=dict)
    """GPUs by their numbers."""
    periods: int = 1
    still_periods: int = 0
    """Periods before the end in which nobody ran at all, nor ended, as a worker does that its parent waits
    for.
    """
    filling: Filling | None = None
    """Memory that was filling at the end."""
    growing: tuple[Growth, ...] = ()
    """Processes whose memory has grown all the time, until now or their end."""
    standstills: dict[int, Standstill] = msgspec.field(default_factory=dict)
    """Processes that stand still at the end, or did until they were ended."""
    dropped_threads: int = 0
    """Threads that have ended, and did least, of which only this number is kept, and nothing of a process
    without others.
    """

    def then(self, later: Span) -> Span:
        """Return both spans as one; threads and processes that have ended meanwhile stay in it."""
        threads = _joined(self.threads, later.threads, ThreadSpan.then)
        for tid in self.threads.keys() - later.threads.keys():
            if not self.threads[tid].ended:
                threads[tid] = replace(self.threads[tid], ended=True, still_periods=0)
        processes = _joined(self.processes, later.processes, ProcessSpan.then)
        dropped = _least_busy(threads) if len(threads) > MOST_ENDED else []
        for tid in dropped:
            del threads[tid]
        if dropped:
            kept = {thread.pid for thread in threads.values()}
            processes = {pid: one for pid, one in processes.items() if pid in kept}
        least = [v for v in (self.least_available_bytes, later.least_available_bytes) if v is not None]
        return Span(
            seconds=self.seconds + later.seconds,
            threads=threads,
            processes=processes,
            cores=_joined(self.cores, later.cores, CoreSpan.then),
            memory=later.memory or self.memory,
            least_available_bytes=min(least, default=None),
            pressure_s=_added(self.pressure_s, later.pressure_s),
            others=_joined(self.others, later.others, OtherLoad.then),
            kills=_joined(
                self.kills,
                later.kills,
                lambda one, two: two._replace(processes=one.processes + two.processes),
            ),
            gpus=_joined(self.gpus, later.gpus, GpuSpan.then),
            periods=self.periods + later.periods,
            still_periods=later.still_periods
            + (self.still_periods if later.still_periods == later.periods else 0),
            filling=later.filling,
            growing=later.growing,
            standstills=later.standstills,
            dropped_threads=self.dropped_threads + later.dropped_threads + len(dropped),
        )


def _least_busy(threads: Mapping[int, ThreadSpan]) -> list[int]:
    """Return the threads that have ended and are too many to be kept."""
    ended = [thread for thread in threads.values() if thread.ended]
    if len(ended) <= MOST_ENDED:
        return []
    ended.sort(key=lambda thread: thread.user_s + thread.system_s)
    return [thread.tid for thread in ended[: len(ended) - MOST_ENDED]]


def _joined(first: Mapping[K, T], second: Mapping[K, T], then: Callable[[T, T], T]) -> dict[K, T]:
    both = dict(first)
    for key, value in second.items():
        both[key] = then(both[key], value) if key in both else value
    return both


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}
