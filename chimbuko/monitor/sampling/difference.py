"""A span out of two samples. Shares come from the kernel's ticks and the time that has really passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import sub

from chimbuko.monitor.procfs.gpuspan import gpu_span
from chimbuko.monitor.procfs.numbers import parse_cpulist
from chimbuko.monitor.procfs.system import CoreTicks
from chimbuko.monitor.sampling.sample import (
    ASLEEP,
    BLOCKED,
    SAMPLER,
    GroupCounters,
    Sample,
    ThreadCounters,
    kind_of,
)
from chimbuko.monitor.sampling.span import TICKS_PER_S, CoreSpan, ProcessSpan, Span, ThreadSpan

STILL_SHARE = 0.00005
"""A thread that ran for less of a period did nothing: to be woken and to look at a lock takes some µs. One
that looks for work three times a second takes 1 ms for it, and is at work.
"""
UNSEEN_S = 0.02
"""CPU time of a process, beyond that of its threads, from which some ran that nobody saw: two of the
kernel's ticks, since one may be the sum of many moments.
"""

KindOf = Callable[[int, int, str, str], str]
"""Kind of a thread by process, thread, its name and that of its process."""


def by_name(pid: int, tid: int, name: str, process_name: str) -> str:
    """Return the kind of a thread of a process of which no more is known."""
    return kind_of(pid, tid, name, process_name, openmp=False)


def difference(earlier: Sample, later: Sample, kinds: KindOf = by_name) -> Span:
    """Differences of two samples: no count is negative, whatever the kernel's counters did."""
    seconds = max(0, later.time_us - earlier.time_us) / 1e6
    threads = {}
    for tid, now in later.threads.items():
        main = later.threads.get(now.pid)
        kind = kinds(now.pid, tid, now.name, main.name if main else now.name)
        before = earlier.threads.get(tid)
        if before is None and now.start_ticks < earlier.boot_ticks:
            # It was not watched yet: when it did what it has done is not known.
            threads[tid] = _still(now, 0.0, kind)
        else:
            threads[tid] = _thread(before, now, seconds, kind)
    processes = {pid: _process(pid, earlier, later) for pid in later.processes}
    available = later.memory.available_bytes if later.memory else None
    return Span(
        seconds=seconds,
        threads=threads,
        processes=processes,
        cores={
            cpu: CoreSpan(cpu, _risen(earlier.cores[cpu], ticks))
            for cpu, ticks in later.cores.items()
            if cpu in earlier.cores
        },
        memory=later.memory,
        least_available_bytes=available,
        pressure_s={
            name: _rise(earlier.pressure_us[name], now_us) / 1e6
            for name, now_us in later.pressure_us.items()
            if name in earlier.pressure_us
        },
        kills={
            group: now._replace(processes=now.processes - earlier.kills[group].processes)
            for group, now in later.kills.items()
            if group in earlier.kills and now.processes > earlier.kills[group].processes
        },
        gpus={number: gpu_span(reading) for number, reading in later.gpus.items()},
        still_periods=int(earlier.threads.keys() <= threads.keys() and _is_still(threads, processes)),
    )


def _is_still(threads: Mapping[int, ThreadSpan], processes: Mapping[int, ProcessSpan]) -> bool:
    """Whether nobody ran, but for the sampler; in most periods the first thread shows that this is not so."""
    if not all(thread.still_periods or thread.kind == SAMPLER for thread in threads.values()):
        return False
    unseen_s = {pid: one.cpu_s for pid, one in processes.items()}
    for thread in threads.values():
        unseen_s[thread.pid] = unseen_s.get(thread.pid, 0.0) - thread.user_s - thread.system_s
    return max(unseen_s.values(), default=0.0) < UNSEEN_S


def _rise(before: int, now: int) -> int:
    return max(0, now - before)


def _risen(before: CoreTicks, now: CoreTicks) -> CoreTicks:
    risen = CoreTicks._make(map(sub, now, before))
    return risen if min(risen) >= 0 else CoreTicks._make(map(_rise, before, now))


def _thread(before: ThreadCounters | None, now: ThreadCounters, seconds: float, kind: str) -> ThreadSpan:
    if before is now:
        # As of most threads of most programs.
        return _still(now, seconds, kind)
    if before is None or before.start_ticks != now.start_ticks:
        # It is new, and all that it has done lies in the span.
        before = now._replace(
            user_ticks=0, system_ticks=0, voluntary=0, involuntary=0, minor_faults=0, major_faults=0,
            ran_ns=0, waited_ns=0,
        )  # fmt: skip
    (_, _, _, _, _, user, system, minor, major, processor, voluntary, involuntary, _, ran, waited, _) = before
    (
        pid, tid, name, state, _, user_now, system_now, minor_now, major_now, processor_now, voluntary_now,
        involuntary_now, cpus, ran_now, waited_now, _,
    ) = now  # fmt: skip
    if ran is not None and ran_now is not None:
        ran_s = (ran_now - ran) / 1e9
    else:
        ran_s = (user_now - user + system_now - system) / TICKS_PER_S
    return ThreadSpan(
        pid,
        tid,
        name,
        kind,
        parse_cpulist(cpus),
        seconds,
        (user_now - user) / TICKS_PER_S if user_now > user else 0.0,
        (system_now - system) / TICKS_PER_S if system_now > system else 0.0,
        voluntary_now - voluntary if voluntary_now > voluntary else 0,
        involuntary_now - involuntary if involuntary_now > involuntary else 0,
        None
        if waited is None or waited_now is None
        else (waited_now - waited) / 1e9
        if waited_now > waited
        else 0.0,
        minor_now - minor if minor_now > minor else 0,
        major_now - major if major_now > major else 0,
        int(processor != processor_now),
        processor_now,
        state,
        1,
        int(state in ASLEEP and ran_s < STILL_SHARE * seconds),
        False,
        int(state == BLOCKED),
    )


def _still(now: ThreadCounters, seconds: float, kind: str) -> ThreadSpan:
    """Return a thread of which nothing has changed."""
    return ThreadSpan(
        now.pid, now.tid, now.name, kind, parse_cpulist(now.cpus), seconds, 0.0, 0.0, 0, 0,
        None if now.waited_ns is None else 0.0, 0, 0, 0, now.processor, now.state, 1,
        int(seconds > 0 and now.state in ASLEEP), False, int(seconds > 0 and now.state == BLOCKED),
    )  # fmt: skip


def _process(pid: int, earlier: Sample, later: Sample) -> ProcessSpan:
    now, before = later.processes[pid], earlier.processes.get(pid)
    read = written = 0
    if now.io is not None and before is not None and before.io is not None:
        read = _rise(before.io.read_bytes, now.io.read_bytes)
        written = _rise(before.io.written_bytes, now.io.written_bytes)
    group = later.groups.get(pid)
    throttled_us = _throttled_us(earlier.groups.get(pid), group)
    cpu_ticks = 0 if before is None else _rise(before.cpu_ticks, now.cpu_ticks)
    memory = now.memory
    return ProcessSpan(
        *(pid, memory.resident_bytes, memory.peak_bytes, read, written, group, throttled_us / 1e6),
        cpu_ticks / TICKS_PER_S,
        now.nice,
        now.thread_count,
        swapped_bytes=memory.swapped_bytes,
    )


def _throttled_us(before: GroupCounters | None, now: GroupCounters | None) -> int:
    if before is None or now is None or before.throttled_us is None or now.throttled_us is None:
        return 0
    return _rise(before.throttled_us, now.throttled_us)
