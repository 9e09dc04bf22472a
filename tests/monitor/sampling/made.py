"""Made-up samples and spans."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from chimbuko.monitor.procfs.system import CoreTicks, NodeMemory
from chimbuko.monitor.procfs.task import ProcessMemory
from chimbuko.monitor.sampling.sample import ProcessCounters, Sample, ThreadCounters
from chimbuko.monitor.sampling.span import TICKS_PER_S, CoreSpan, Span, ThreadSpan

COUNTERS = ThreadCounters(
    pid=10, tid=10, name="app", state="R", start_ticks=5, user_ticks=100, system_ticks=20, minor_faults=3,
    major_faults=0, processor=1, voluntary=7, involuntary=2, cpus="0-1", ran_ns=10**9, waited_ns=0, slices=9,
)  # fmt: skip


def sample(time_s: float, *threads: ThreadCounters, cores: dict[int, CoreTicks] | None = None) -> Sample:
    return Sample(
        time_us=round(time_s * 1e6),
        wall_us=round(1.7e15 + time_s * 1e6),
        boot_ticks=round(TICKS_PER_S * time_s),
        threads={thread.tid: thread for thread in threads},
        processes={thread.pid: ProcessCounters(ProcessMemory(2**20, 2**21), None) for thread in threads},
        cores=cores or {},
        memory=NodeMemory(2**30, 2**29, 2**29),
    )


def thread(
    tid: int, cpus: tuple[int, ...] = (0,), busy: float = 0.9, seconds: float = 10.0, **more: Any
) -> ThreadSpan:
    made = ThreadSpan(
        pid=more.pop("pid", tid),
        tid=tid,
        name="app",
        kind="Main",
        cpus=cpus,
        seconds=seconds,
        user_s=busy * seconds,
        system_s=0.0,
        waited_s=0.0,
        processor=cpus[0],
        state="R",
        periods=round(seconds),
    )
    return replace(made, **more)


def core(cpu: int, busy: float, seconds: float = 10.0) -> CoreSpan:
    ticks = round(busy * seconds * TICKS_PER_S), round((1 - busy) * seconds * TICKS_PER_S)
    return CoreSpan(cpu, CoreTicks(ticks[0], 0, 0, ticks[1], *([0] * 6)))


def span(*threads: ThreadSpan, cores: dict[int, float] | None = None, **more: Any) -> Span:
    seconds = more.pop("seconds", 10.0)
    more.setdefault("still_periods", min((one.still_periods for one in threads), default=0))
    return Span(
        seconds=seconds,
        threads={one.tid: one for one in threads},
        cores={cpu: core(cpu, busy, seconds) for cpu, busy in (cores or {}).items()},
        periods=round(seconds),
        **more,
    )
