"""Report as text in ZeroSum's layout: processes, threads, cores and findings; and the heartbeat's line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from chimbuko.core.units import number_of
from chimbuko.monitor.procfs.gpuspan import BUSY
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.finding import workers
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.report.locks import LockCounts
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.sample import MAIN, OPENMP, SAMPLER
from chimbuko.monitor.sampling.span import CoreSpan, Span, ThreadSpan


def heartbeat(span: Span, total: Span) -> str:
    """Return one line: what ran in the last period, and what memory is left."""
    threads = [one for one in span.threads.values() if one.kind != SAMPLER]
    busy = sum(one.user_s + one.system_s for one in threads) / span.seconds if span.seconds > 0 else 0.0
    resident = sum(span.processes[pid].resident_bytes for pid in {one.pid for one in threads})
    left = f", {_size(span.memory.available_bytes)} left" if span.memory else ""
    gpu_percents = [gpu.metrics[BUSY].mean for gpu in span.gpus.values() if BUSY in gpu.metrics]
    gpus = f", {sum(gpu_percents) / 100:.1f} of {number_of(len(gpu_percents), 'GPUs')} busy"
    seconds = f"{total.seconds:.0f}" if span.seconds > 0.9 else f"{total.seconds:.1f}"
    running = len(workers(span))
    return (
        f"{seconds} s: {number_of(len({one.pid for one in threads}), 'processes')}, "
        f"{number_of(len(threads), 'threads')} ({running} want{'s' if running == 1 else ''} to run), "
        f"{busy:.1f} cores busy, {_size(resident)} in memory{left}{gpus if gpu_percents else ''}"
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MB"


def report(
    span: Span,
    identities: Mapping[int, Identity],
    node: str,
    only: int | None = None,
    locks: Mapping[int, LockCounts] | None = None,
) -> list[str]:
    """Return the lines of a report. Percentages are of the time for which a thread was watched.

    Parameters
    ----------
    only
        Number of the one process to report. Findings are of all: each concerns the others, too.
    locks
        Counts of locks by thread; None where they are not counted.
    """
    seen = {thread.pid for thread in span.threads.values()}
    processes = [one for one in identities.values() if one.pid in seen and only in (None, one.pid)]
    processes.sort(key=lambda one: (one.rank is None, one.rank or 0, one.pid))
    threads = [one for one in span.threads.values() if only in (None, one.pid) or one.kind == SAMPLER]
    dropped = span.dropped_threads if only is None else 0
    if locks is not None and only is not None:
        locks = {tid: counts for tid, counts in locks.items() if tid in span.threads}
    return list(_lines(span, threads, processes, node, dropped, locks))


def _lines(
    span: Span,
    threads: list[ThreadSpan],
    processes: Collection[Identity],
    node: str,
    dropped: int,
    locks: Mapping[int, LockCounts] | None,
) -> Iterator[str]:
    yield f"Duration of execution: {span.seconds:.3f} s"
    yield from ("", "Process Summary:")
    for one in processes:
        rank = "" if one.rank is None else f"MPI {one.rank:03d} - "
        yield f"{rank}PID {one.pid} - Node {node} - CPUs allowed: [{format_cpulist(_cpus(one, span))}]"
    yield from ("", "LWP (thread) Summary:")
    order = {one.pid: at for at, one in enumerate(processes)}
    threads.sort(key=lambda one: (order.get(one.pid, len(order)), one.tid != one.pid, one.tid))
    kinds = {one.tid: _kind(one, span) for one in threads}
    widths = (max(map(len, kinds.values()), default=0), *_widths(threads))
    for thread in threads:
        # A process whose main thread has no counts has not loaded the library.
        taken = locks.get(thread.tid, LockCounts()) if locks and thread.pid in locks else None
        yield _thread(thread, kinds[thread.tid], widths, taken)
    if dropped:
        yield f"and {dropped} threads that have ended, and did less"
    if locks is not None:
        yield from _unseen(locks, span)
    used = {cpu for one in processes for cpu in _cpus(one, span)}
    cores = [core for cpu, core in sorted(span.cores.items()) if cpu in used]
    if cores:
        yield from ("", "Hardware Summary:")
        yield from map(_core, cores)
    for number, gpu in sorted(span.gpus.items()):
        yield from ("", f"GPU {number} - {gpu.name} (metric: min avg max)")
        for name, metric in gpu.metrics.items():
            yield f"    {name}: {metric.least:.2f} {metric.mean:.2f} {metric.most:.2f}"
    yield from ("", "Findings:")
    found = findings(span)
    for finding in found:
        yield f"{finding.kind}: {finding.text}"
        yield f"    {finding.advice}"
    if not found:
        yield "none"


def _cpus(one: Identity, span: Span) -> tuple[int, ...]:
    """Return the CPUs of a process's main thread, as a program may be bound after it was first seen."""
    main = span.threads.get(one.pid)
    return main.cpus if main else one.cpus


def _kind(thread: ThreadSpan, span: Span) -> str:
    has_openmp = any(one.kind == OPENMP and one.pid == thread.pid for one in span.threads.values())
    return f"{MAIN}, {OPENMP}" if thread.kind == MAIN and has_openmp else thread.kind


def _widths(threads: Collection[ThreadSpan]) -> tuple[int, int, int]:
    return (
        max((len(str(one.tid)) for one in threads), default=0),
        max((len(str(one.involuntary)) for one in threads), default=0),
        max((len(str(one.voluntary)) for one in threads), default=0),
    )


def _unseen(locks: Mapping[int, LockCounts], span: Span) -> Iterator[str]:
    """Yield what is to be said of locks beside the threads that have a line each."""
    if not locks:
        yield "no locks are counted: nothing has loaded the library that does (a statically linked program?)"
    others = [counts for tid, counts in locks.items() if tid not in span.threads]
    if others:
        total = LockCounts(*map(sum, zip(*others, strict=True)))
        yield f"{number_of(len(others), 'threads')} without a line here: {_taken(total)}"


def _taken(counts: LockCounts) -> str:
    failed = f" ({counts.failed} in vain)" if counts.failed else ""
    return f"locks: {counts.locks}, trylocks: {counts.trylocks}{failed}"


def _thread(one: ThreadSpan, kind: str, widths: tuple[int, int, int, int], counts: LockCounts | None) -> str:
    seconds = one.seconds or 1.0
    wait = "" if one.waited_share is None else f", wait: {100 * one.waited_share:5.2f}"
    locks = "" if counts is None else f", {_taken(counts)}"
    return (
        f"LWP {one.tid:>{widths[1]}}: {kind:>{widths[0]}} - stime: {100 * one.system_s / seconds:5.2f}, "
        f"utime: {100 * one.user_s / seconds:5.2f}, nv_ctx: {one.involuntary:>{widths[2]}}, "
        f"ctx: {one.voluntary:>{widths[3]}}{wait}{locks}, CPUs: [{format_cpulist(one.cpus)}] - {one.name}"
    )


def _core(core: CoreSpan) -> str:
    idle, system, user = (100 * core.share(value) for value in (core.idle_s, core.system_s, core.user_s))
    return f"CPU {core.cpu:03d} - idle: {idle:5.2f}, system: {system:5.2f}, user: {user:5.2f}"
