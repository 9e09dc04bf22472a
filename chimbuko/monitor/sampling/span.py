"""What happened on a node between two moments, as values that add up over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chimbuko.monitor.gpus.gpuspan import GpuSpan
from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.sampling.sample import GroupCounters

T = TypeVar("T")
MOST_ENDED = 512
"""Threads that have ended are kept up to so many; then the least busy ones are only counted."""


@dataclass(slots=True)
class ThreadSpan:
    """One thread. It is never changed; ``frozen`` would make it cost three times as much, each period."""

    pid: int
    tid: int
    name: str
    kind: str
    cpus: tuple[int, ...]
    """Where it may run."""
    seconds: float
    """For how long it was watched."""
    user_s: float
    system_s: float
    voluntary: int = 0
    involuntary: int = 0
    waited_s: float | None = None
    """While it could have run and its core was another's; None where that is not known."""
    minor_faults: int = 0
    major_faults: int = 0
    migrations: int = 0
    """How often it was found on another hardware thread than before."""
    processor: int = -1
    """Where it ran last, -1 where that is not known."""
    state: str = "S"
    """At the end."""
    periods: int = 1
    still_periods: int = 0
    """For how many periods before the end it has not run at all, and was asleep."""
    ended: bool = False

    @property
    def busy_share(self) -> float:
        """The share of the time in which it ran."""
        return (self.user_s + self.system_s) / self.seconds if self.seconds > 0 else 0.0

    @property
    def waited_share(self) -> float | None:
        """The share of the time in which it waited for a core, None where that is not known."""
        return None if self.waited_s is None or self.seconds <= 0 else self.waited_s / self.seconds

    def then(self, later: ThreadSpan) -> ThreadSpan:
        """Both spans as one."""
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
        )


@dataclass(frozen=True)
class CoreSpan:
    """One hardware thread of the node: seconds of each kind. ``idle_s`` contains waiting for storage."""

    cpu: int
    user_s: float
    system_s: float
    idle_s: float
    steal_s: float = 0.0
    """Taken by the host of a virtual machine."""
    details: Mapping[str, float] = field(default_factory=dict)
    """Seconds by the names of the kernel."""

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.user_s + self.system_s + self.idle_s + self.steal_s

    @property
    def busy_s(self) -> float:
        """All but idle."""
        return self.user_s + self.system_s + self.steal_s

    def share(self, seconds: float) -> float:
        """Seconds as a share of the whole."""
        return seconds / self.total_s if self.total_s > 0 else 0.0

    def then(self, later: CoreSpan) -> CoreSpan:
        """Both spans as one."""
        return CoreSpan(
            self.cpu,
            self.user_s + later.user_s,
            self.system_s + later.system_s,
            self.idle_s + later.idle_s,
            self.steal_s + later.steal_s,
            _added(self.details, later.details),
        )


@dataclass(frozen=True)
class ProcessSpan:
    """One process: memory at the end, and what it has read and written."""

    pid: int
    resident_bytes: int
    peak_bytes: int
    read_bytes: int = 0
    written_bytes: int = 0
    group: GroupCounters | None = None
    """Its control group at the end."""
    throttled_s: float = 0.0
    """For how long that was kept from its cores."""

    def then(self, later: ProcessSpan) -> ProcessSpan:
        """Both spans as one."""
        return replace(
            later,
            peak_bytes=max(self.peak_bytes, later.peak_bytes),
            read_bytes=self.read_bytes + later.read_bytes,
            written_bytes=self.written_bytes + later.written_bytes,
            throttled_s=self.throttled_s + later.throttled_s,
        )


@dataclass(frozen=True)
class Span:
    """A node for some time."""

    seconds: float
    threads: dict[int, ThreadSpan]
    processes: dict[int, ProcessSpan] = field(default_factory=dict)
    cores: dict[int, CoreSpan] = field(default_factory=dict)
    """Empty where nothing is known of them."""
    memory: NodeMemory | None = None
    """At the end."""
    least_available_bytes: int | None = None
    pressure_s: dict[str, float] = field(default_factory=dict)
    """For how long some task of the node waited for ``cpu``, ``memory``, ``io``."""
    others_s: dict[str, float] = field(default_factory=dict)
    """CPU time of processes that are not watched, by their names, as far as it was looked for."""
    gpus: dict[int, GpuSpan] = field(default_factory=dict)
    """By their numbers."""
    periods: int = 1
    dropped_threads: int = 0
    """Threads that have ended, and did least, of which only this number is kept."""

    def then(self, later: Span) -> Span:
        """Both spans as one; threads and processes that have ended meanwhile stay in it."""
        threads = _joined(self.threads, later.threads, ThreadSpan.then)
        for tid in self.threads.keys() - later.threads.keys():
            threads[tid] = replace(self.threads[tid], ended=True, still_periods=0)
        dropped = _least_busy(threads)
        for tid in dropped:
            del threads[tid]
        least = [v for v in (self.least_available_bytes, later.least_available_bytes) if v is not None]
        return Span(
            seconds=self.seconds + later.seconds,
            threads=threads,
            processes=_joined(self.processes, later.processes, ProcessSpan.then),
            cores=_joined(self.cores, later.cores, CoreSpan.then),
            memory=later.memory or self.memory,
            least_available_bytes=min(least, default=None),
            pressure_s=_added(self.pressure_s, later.pressure_s),
            others_s=_added(self.others_s, later.others_s),
            gpus=_joined(self.gpus, later.gpus, GpuSpan.then),
            periods=self.periods + later.periods,
            dropped_threads=self.dropped_threads + later.dropped_threads + len(dropped),
        )


def _least_busy(threads: Mapping[int, ThreadSpan]) -> list[int]:
    """Those threads that have ended and are too many to be kept."""
    ended = [thread for thread in threads.values() if thread.ended]
    if len(ended) <= MOST_ENDED:
        return []
    ended.sort(key=lambda thread: thread.user_s + thread.system_s)
    return [thread.tid for thread in ended[: len(ended) - MOST_ENDED]]


def _joined(first: Mapping[int, T], second: Mapping[int, T], then: Callable[[T, T], T]) -> dict[int, T]:
    both = dict(first)
    for key, value in second.items():
        both[key] = then(both[key], value) if key in both else value
    return both


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}
