"""Findings about threads: they move, they are in the kernel, they stand still."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chimbuko.core.units import format_share, number_of
from chimbuko.monitor.report.finding import Finding, workers
from chimbuko.monitor.sampling.sample import SAMPLER
from chimbuko.monitor.sampling.span import Span, ThreadSpan

MOVES_PER_S = 0.5
"""Rate of moves from which a thread is reported: at one sample a second a thread that moves all the time is
seen to have moved each second time.
"""
SYSTEM_SHARE = 0.30
STILL_PERIODS = 5
STOPPED = "Tt"


def migrating(span: Span) -> Iterator[Finding]:
    """Threads that go from core to core, and leave their caches behind."""
    moved = [
        thread
        for thread in workers(span)
        if thread.periods >= STILL_PERIODS and thread.migrations / thread.periods >= MOVES_PER_S
    ]
    if moved:
        most = max(thread.migrations / thread.periods for thread in moved)
        yield Finding(
            "migrating",
            f"{number_of(len(moved), 'threads')} moved to another core in up to {format_share(most)} "
            "of the periods",
            "bind threads to cores (OMP_PROC_BIND=spread OMP_PLACES=cores)",
            tuple(sorted(thread.tid for thread in moved)),
        )


def system_bound(span: Span) -> Iterator[Finding]:
    """Threads that spend their time in the kernel."""
    bound = [t for t in workers(span) if t.seconds > 0 and t.system_s / t.seconds > SYSTEM_SHARE]
    if bound:
        most = max(thread.system_s / thread.seconds for thread in bound)
        yield Finding(
            "system-bound",
            f"{number_of(len(bound), 'threads')} in the kernel for up to {format_share(most)} of the time",
            "look for system calls in a loop, page faults, network and files (strace -c, perf)",
            tuple(sorted(thread.tid for thread in bound)),
        )


def stuck(span: Span) -> Iterator[Finding]:
    """Processes all of whose threads have been stopped or asleep for five periods, in which nobody ran."""
    by_process: dict[int, list[ThreadSpan]] = defaultdict(list)
    for thread in span.threads.values():
        if thread.kind != SAMPLER and not thread.ended:
            by_process[thread.pid].append(thread)
    still = {
        pid: threads
        for pid, threads in by_process.items()
        if all(thread.still_periods >= STILL_PERIODS for thread in threads)
    }
    for pid, threads in still.items():
        is_stopped = all(thread.state in STOPPED for thread in threads)
        periods = min(thread.still_periods for thread in threads)
        if not is_stopped:
            # Who waits for others that run, or ran until just now, as a shell and mpirun do, is in order.
            periods = min(periods, span.still_periods)
            if len(still) < len(by_process) or periods < STILL_PERIODS:
                continue
        who = f"the {number_of(len(threads), 'threads')} of process {pid}"
        yield Finding(
            "stopped" if is_stopped else "stuck",
            f"{who} {'stand' if is_stopped else 'sleep'} still for {periods} periods",
            f"let it go on (kill -CONT {pid})"
            if is_stopped
            else f"see what each waits for (gdb -p {pid}, py-spy dump): a lock, a message, or input",
            tuple(sorted(thread.tid for thread in threads)),
        )
