"""One line that says that a program lives, and how."""

from __future__ import annotations

from chimbuko.core.units import number_of
from chimbuko.monitor.findings.finding import workers
from chimbuko.monitor.procfs.gpuspan import BUSY
from chimbuko.monitor.sampling.kinds import SAMPLER
from chimbuko.monitor.sampling.span import Span


def heartbeat(span: Span, total: Span) -> str:
    """``12 s: 4 ranks ...``: what ran in the last period, and what memory is left."""
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
