"""Rows out of two samples and the span between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from chimbuko.monitor.collector.fastring import Passed, passed_row
from chimbuko.monitor.procfs.systemcalls import NO_CALL
from chimbuko.monitor.sampling.rows import ANYBODY, CORE, GPU, NOBODY, NODE, THREAD, Rows
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import TICKS_PER_S, Span

MOST = np.iinfo(np.uint32).max
TICK_US = 1_000_000 // TICKS_PER_S


def thread_rows(last: Sample, sample: Sample, span: Span) -> Rows:
    """THREAD rows of all threads that were watched in this time."""
    begin_us, length_us = _interval(last, sample)
    rows = []
    for tid, one in span.threads.items():
        if one.seconds <= 0:
            continue
        now, before = sample.threads[tid], last.threads.get(tid)
        if before is not None and before.start_ticks != now.start_ticks:
            before = None
        if now.ran_ns is None or now.slices is None:
            ran_us, slices = _us(one.user_s + one.system_s), one.voluntary + one.involuntary
        else:
            ran_ns, count = (before.ran_ns or 0, before.slices or 0) if before is not None else (0, 0)
            ran_us, slices = max(0, now.ran_ns - ran_ns) // 1000, max(0, now.slices - count)
        rows.append(
            (
                begin_us, length_us, one.pid, tid, min(ran_us, MOST), _us(one.waited_s or 0.0),
                _us(one.system_s), one.minor_faults, one.major_faults, min(slices, MOST), one.migrations,
                one.processor, NO_CALL, one.state.encode(),
            )
        )  # fmt: skip
    return np.array(rows, THREAD)


def first_rows(last: Sample, sample: Sample, since_ticks: int, bases: Mapping[int, Passed]) -> Rows:
    """THREAD rows of threads that ``last`` has not: each from what had passed of it by its base, or from its
    beginning where that was since a time and before ``last``.
    """
    rows = []
    for tid, one in sample.threads.items():
        before = last.threads.get(tid)
        is_known = before is not None and before.start_ticks == one.start_ticks
        has_begun = tid in bases or since_ticks <= one.start_ticks < last.boot_ticks
        if is_known or not has_begun:
            continue
        began_us = sample.wall_us - (sample.boot_ticks - one.start_ticks) * TICK_US
        system_us = one.system_ticks * TICK_US
        ran_us = system_us + one.user_ticks * TICK_US if one.ran_ns is None else one.ran_ns // 1000
        waited_us, slices = (one.waited_ns or 0) // 1000, one.slices or 0
        now = Passed(sample.wall_us, ran_us, waited_us, system_us, one.minor_faults, one.major_faults, slices)
        ids = one.pid, tid, one.processor, NO_CALL, one.state
        rows.append(passed_row(bases.get(tid, Passed(began_us)), now, *ids))
    return np.array(rows, THREAD)


def core_rows(last: Sample, sample: Sample, span: Span, threads: Rows) -> Rows:
    """CORE rows."""
    interval = _interval(last, sample)
    rows = []
    own_us: Counter[int] = Counter()
    for core, ran_us in zip(threads["core"].tolist(), threads["ran_us"].tolist(), strict=True):
        own_us[core] += ran_us
    for cpu, one in span.cores.items():
        times = map(_us, (one.user_s, one.system_s, one.idle_s, one.steal_s))
        rows.append((*interval, cpu, *times, min(own_us[cpu], MOST)))
    return np.array(rows, CORE)


def node_rows(last: Sample, sample: Sample, span: Span) -> Rows:
    """Return the one NODE row."""
    memory = span.memory
    limited = [
        one.group for one in span.processes.values() if one.group is not None and one.group.limit_bytes
    ]
    fullest = max(limited, key=lambda group: group.used_bytes / (group.limit_bytes or 1), default=None)
    throttled_s = max((one.throttled_s for one in span.processes.values()), default=0.0)
    row = (
        *_interval(last, sample),
        memory.total_bytes if memory else 0,
        memory.available_bytes if memory else 0,
        *(_us(span.pressure_s.get(name, 0.0)) for name in ("cpu", "memory", "io")),
        _us(throttled_s),
        fullest.used_bytes if fullest else 0,
        (fullest.limit_bytes or 0) if fullest else 0,
    )
    return np.array([row], NODE)


def gpu_rows(last: Sample, sample: Sample) -> Rows:
    """GPU rows. What a GPU says at the end of a period counts for all of it."""
    begin_us, length_us = _interval(last, sample)
    rows = []
    for number, one in sample.gpus.items():
        users = one.pids or frozenset()
        watched = users & sample.processes.keys()
        pid = next(iter(watched)) if len(watched) == 1 else NOBODY if users and not watched else ANYBODY
        rows.append(
            (
                *(begin_us, length_us, number, pid, len(users) - len(watched)),
                int(length_us * min(100.0, one.busy_percent or 0.0) / 100),
                length_us if one.is_throttled else 0,
                *(one.memory_used_bytes or 0, one.memory_total_bytes or 0),
                int((one.power_w or 0.0) * length_us / 1000),
                *(int(one.temperature_c or 0.0), one.name.encode()[:32]),
            )
        )
    return np.array(rows, GPU)


def _interval(last: Sample, sample: Sample) -> tuple[int, int]:
    length_us = max(0, sample.time_us - last.time_us)
    return sample.wall_us - length_us, min(length_us, MOST)


def _us(seconds: float) -> int:
    return min(int(seconds * 1e6), MOST)
