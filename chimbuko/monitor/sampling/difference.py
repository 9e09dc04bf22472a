"""A span out of two samples. Shares come from the kernel's ticks and the time that has really passed."""

from __future__ import annotations

import os
from collections.abc import Callable

from chimbuko.monitor.procfs.cpulist import parse_cpulist
from chimbuko.monitor.procfs.system import CoreTicks
from chimbuko.monitor.sampling.kinds import kind_of
from chimbuko.monitor.sampling.sample import ASLEEP, GroupCounters, Sample, ThreadCounters
from chimbuko.monitor.sampling.span import CoreSpan, ProcessSpan, Span, ThreadSpan

TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
STILL_SHARE = 0.002
"""A thread that ran for less of a period did nothing: to be woken and to look at a lock takes some µs."""

KindOf = Callable[[int, int, str, str], str]
"""Kind of a thread by process, thread, its name and that of its process."""


def by_name(pid: int, tid: int, name: str, process_name: str) -> str:
    """The kind of a thread of a process of which no more is known."""
    return kind_of(pid, tid, name, process_name, openmp=False)


def difference(earlier: Sample, later: Sample, kinds: KindOf = by_name) -> Span:
    """What happened between two samples: no count is negative, whatever the kernel's counters did."""
    seconds = max(0, later.time_us - earlier.time_us) / 1e6
    threads = {}
    for tid, now in later.threads.items():
        main = later.threads.get(now.pid)
        kind = kinds(now.pid, tid, now.name, main.name if main else now.name)
        threads[tid] = _thread(earlier.threads.get(tid), now, seconds, kind)
    available = later.memory.available_bytes if later.memory else None
    return Span(
        seconds=seconds,
        threads=threads,
        processes={pid: _process(pid, earlier, later) for pid in later.processes},
        cores={
            cpu: _core(cpu, earlier.cores[cpu], ticks)
            for cpu, ticks in later.cores.items()
            if cpu in earlier.cores
        },
        memory=later.memory,
        least_available_bytes=available,
        pressure_s={
            name: _rise(earlier.pressure[name].some_us, now.some_us) / 1e6
            for name, now in later.pressure.items()
            if name in earlier.pressure
        },
    )


def _rise(before: int, now: int) -> int:
    return max(0, now - before)


def _thread(before: ThreadCounters | None, now: ThreadCounters, seconds: float, kind: str) -> ThreadSpan:
    if before is None or before.start_ticks != now.start_ticks:
        # It is new, and all that it has done lies in the span.
        before = now._replace(
            user_ticks=0, system_ticks=0, voluntary=0, involuntary=0, minor_faults=0, major_faults=0,
            ran_ns=0, waited_ns=0,
        )  # fmt: skip
    ran_s = (now.user_ticks - before.user_ticks + now.system_ticks - before.system_ticks) / TICKS_PER_S
    if now.ran_ns is not None and before.ran_ns is not None:
        ran_s = (now.ran_ns - before.ran_ns) / 1e9
    waited_s = None
    if now.waited_ns is not None and before.waited_ns is not None:
        waited_s = _rise(before.waited_ns, now.waited_ns) / 1e9
    still = now.state in ASLEEP and ran_s < STILL_SHARE * seconds
    return ThreadSpan(
        pid=now.pid,
        tid=now.tid,
        name=now.name,
        kind=kind,
        cpus=parse_cpulist(now.cpus),
        seconds=seconds,
        user_s=_rise(before.user_ticks, now.user_ticks) / TICKS_PER_S,
        system_s=_rise(before.system_ticks, now.system_ticks) / TICKS_PER_S,
        voluntary=_rise(before.voluntary, now.voluntary),
        involuntary=_rise(before.involuntary, now.involuntary),
        waited_s=waited_s,
        minor_faults=_rise(before.minor_faults, now.minor_faults),
        major_faults=_rise(before.major_faults, now.major_faults),
        migrations=int(before.processor != now.processor),
        processor=now.processor,
        state=now.state,
        still_periods=int(still),
    )


def _process(pid: int, earlier: Sample, later: Sample) -> ProcessSpan:
    now, before = later.processes[pid], earlier.processes.get(pid)
    read = written = 0
    if now.io is not None and before is not None and before.io is not None:
        read = _rise(before.io.read_bytes, now.io.read_bytes)
        written = _rise(before.io.written_bytes, now.io.written_bytes)
    group = later.groups.get(pid)
    throttled_us = _throttled_us(earlier.groups.get(pid), group)
    memory = now.memory
    return ProcessSpan(
        pid, memory.resident_bytes, memory.peak_bytes, read, written, group, throttled_us / 1e6
    )


def _throttled_us(before: GroupCounters | None, now: GroupCounters | None) -> int:
    if before is None or now is None or before.throttling is None or now.throttling is None:
        return 0
    return _rise(before.throttling.throttled_us, now.throttling.throttled_us)


def _core(cpu: int, before: CoreTicks, now: CoreTicks) -> CoreSpan:
    ticks = CoreTicks(*map(_rise, before, now))
    # Time of guests is also counted as that of users.
    user, nice = _rise(ticks.guest, ticks.user), _rise(ticks.guest_nice, ticks.nice)
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
    return CoreSpan(
        cpu,
        (user + nice + virtual) / TICKS_PER_S,
        system_all / TICKS_PER_S,
        idle_all / TICKS_PER_S,
        ticks.steal / TICKS_PER_S,
        {name: value / TICKS_PER_S for name, value in counted.items()},
    )
