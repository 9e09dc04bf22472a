"""Findings about threads: they move, they are in the kernel, they stand still."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from chimbuko.core.units import format_share, number_of
from chimbuko.monitor.report.finding import Finding, workers
from chimbuko.monitor.sampling.sample import OURS, SAMPLER
from chimbuko.monitor.sampling.span import Span, Standstill, ThreadSpan, ThreadWait
from chimbuko.monitor.sampling.standstill import STILL_PERIODS, circle

MOVES_PER_S = 0.5
"""Rate of moves from which a thread is reported: at one sample a second a thread that moves all the time is
seen to have moved each second time.
"""
SYSTEM_SHARE = 0.30
BLOCKED_SHARE = 0.30
"""Share of the periods at whose end a thread waits for storage, from which it is bound by that."""
STOPPED = "Tt"
COMPUTING_SHARE = 0.1
"""Share of the time from which a thread computes: a poller that hardly runs leaves no caches behind, wherever
it wakes up.
"""
HANDED_PER_S = 20.0
"""Rate at which a thread gives its core up, from which threads of Python hand the interpreter's lock
to each other: some 160 a second where four compute.
"""
ONE_CORE_SHARES = 0.7, 1.15
"""Least that threads want, and most that they run, of one core where one of them runs at a time."""
WANTED_AT_ONCE = 0.75
"""Share of the threads that want a core at a time, below which they wait for each other and not for it: 0.35
of four under the lock; of threads that compute without it all do.
"""
MANY_THREADS, MANY_FOR_A_CORE = 500, 10
"""Threads of a process, and for each of its cores, above which most of them can do nothing but wait."""


def migrating(span: Span) -> Iterator[Finding]:
    """Threads that go from core to core, and leave their caches behind."""
    moved = [
        thread
        for thread in workers(span)
        if thread.periods >= STILL_PERIODS
        and thread.busy_share >= COMPUTING_SHARE
        and thread.migrations / thread.periods >= MOVES_PER_S
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


def storage_bound(span: Span) -> Iterator[Finding]:
    """Threads that spend their time waiting for storage."""
    by_process: dict[int, list[ThreadSpan]] = defaultdict(list)
    for thread in span.threads.values():
        if thread.periods >= STILL_PERIODS and thread.blocked_periods > BLOCKED_SHARE * thread.periods:
            by_process[thread.pid].append(thread)
    for pid, threads in by_process.items():
        share = max(thread.blocked_periods / thread.periods for thread in threads)
        path = span.processes[pid].path if pid in span.processes else ""
        cores = [span.cores[cpu] for cpu in {cpu for one in threads for cpu in one.cpus} & span.cores.keys()]
        waited_s = sum(core.iowait_s for core in cores)
        idle = f"; cores were idle for it for {waited_s:.1f} s (iowait)" if waited_s >= 0.1 else ""
        yield Finding(
            "storage-bound",
            f"{number_of(len(threads), 'threads')} of process {pid} waited for storage in "
            f"{format_share(share)} of the periods{f', with {path} open' if path else ''}{idle}",
            "write less often and in larger pieces, call fsync at the end only, or use a faster place",
            tuple(sorted(thread.tid for thread in threads)),
        )


def taking_turns(span: Span) -> dict[int, list[ThreadSpan]]:
    """Return threads of Python, by process, of which the interpreter's lock lets one run at a time."""
    found: dict[int, list[ThreadSpan]] = {}
    by_process: dict[int, list[ThreadSpan]] = defaultdict(list)
    for thread in workers(span):
        main = span.threads.get(thread.pid)
        if main is not None and main.name.startswith("python"):
            by_process[thread.pid].append(thread)
    for pid, threads in by_process.items():
        lasted_s = max(thread.seconds for thread in threads)
        ran_s = sum(thread.user_s + thread.system_s for thread in threads)
        wanted_s = ran_s + sum(thread.waited_s or 0.0 for thread in threads)
        least, most = ONE_CORE_SHARES
        if (
            len(threads) >= 2
            and all(thread.voluntary >= HANDED_PER_S * thread.seconds for thread in threads)
            and COMPUTING_SHARE * lasted_s <= ran_s <= most * lasted_s
            and least * lasted_s <= wanted_s <= WANTED_AT_ONCE * len(threads) * lasted_s
        ):
            found[pid] = threads
    return found


def interpreter_bound(span: Span) -> Iterator[Finding]:
    """Threads of Python that wait for the interpreter."""
    for pid, threads in taking_turns(span).items():
        ran = sum(thread.busy_share for thread in threads)
        yield Finding(
            "one at a time",
            f"{number_of(len(threads), 'threads')} of process {pid} (Python) run {ran:.1f} cores together: "
            "the interpreter's lock (GIL) lets one of them run at a time",
            "start processes (multiprocessing), or compute in a library that lets go of the lock",
            tuple(sorted(thread.tid for thread in threads)),
        )


def many_threads(span: Span) -> Iterator[Finding]:
    """Processes with far more threads than cores."""
    for pid, process in span.processes.items():
        if process.most_threads <= MANY_THREADS:
            continue
        threads = [thread for thread in span.threads.values() if thread.pid == pid]
        cores = len({cpu for thread in threads for cpu in thread.cpus})
        if threads and process.most_threads > MANY_FOR_A_CORE * cores:
            yield Finding(
                "too many threads",
                f"process {pid} ({threads[0].name}) has had {process.most_threads:,} threads at a time on "
                f"{number_of(cores, 'cores')}",
                "look for a loop that starts one for each task, and use a pool; each takes memory, too",
            )


def stuck(span: Span) -> Iterator[Finding]:
    """Processes all of whose threads have been stopped or asleep for five periods, in which nobody ran."""
    by_process: dict[int, list[ThreadSpan]] = defaultdict(list)
    for thread in span.threads.values():
        if thread.kind not in (SAMPLER, OURS) and not thread.ended:
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
            if len(still) < len(by_process) or periods < STILL_PERIODS or _is_known(span, pid):
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


def _is_known(span: Span, pid: int) -> bool:
    """Return whether a process is in a deadlock, which is said of it, or some thread of the program will act
    at a time that it has named.
    """
    known = span.standstills.get(pid)
    is_deadlock = known is not None and known.is_deadlock
    return is_deadlock or any(wait.is_for_a_time for one in span.standstills.values() for wait in one.waits)


def deadlocked(span: Span) -> Iterator[Finding]:
    """Processes whose threads wait for each other for ever, also those that were ended so."""
    for one in span.standstills.values():
        if one.is_deadlock:
            yield Finding(
                "deadlock",
                f"the threads of process {one.pid} ({_name(one, one.pid)}) wait for each other: "
                f"{'; '.join(_waits_of(one))}; since {datetime.fromtimestamp(one.begin_us / 1e6):%H:%M:%S}, "
                f"for {(one.end_us - one.begin_us) / 1e6:.0f} s"
                f"{', until the process was ended' if one.has_ended else ''}",
                "take locks in the same order everywhere, and let go of one before waiting for another thread"
                + ("" if one.has_ended else f" (gdb -p {one.pid}, py-spy dump show where each is)"),
                tuple(sorted(wait.tid for wait in one.waits)),
            )


MOST_WAITS = 8
"""Threads of a deadlock that are named; the others are counted."""


def _waits_of(one: Standstill) -> Iterator[str]:
    """Yield what each thread of a deadlock waits for: those in a circle, or else all."""
    waits = circle(one.waits) or list(one.waits)
    for wait in waits[:MOST_WAITS]:
        yield f"thread {wait.tid} ({wait.name}) {_what_for(one, wait)}"
    if len(waits) > MOST_WAITS:
        yield f"and {number_of(len(waits) - MOST_WAITS, 'more threads')}"


def _what_for(one: Standstill, wait: ThreadWait) -> str:
    if not wait.awaited:
        return "waits for a lock, a condition or a semaphore"
    other = f"thread {wait.awaited} ({_name(one, wait.awaited)})"
    return f"waits for a mutex that {other} holds" if wait.is_mutex else f"waits for the end of {other}"


def _name(one: Standstill, tid: int) -> str:
    return next((wait.name for wait in one.waits if wait.tid == tid), "ended")
