"""One line that says that a program lives, and how."""

from __future__ import annotations

from chimbuko.monitor.findings.finding import workers
from chimbuko.monitor.gpus.gpuspan import BUSY
from chimbuko.monitor.sampling.kinds import SAMPLER
from chimbuko.monitor.sampling.span import Span
from chimbuko.units import number_of


def heartbeat(span: Span, total: Span) -> str:
    """``12 s: 4 ranks ...``: what ran in the last period, and what memory is left."""
    threads = [one for one in span.threads.values() if one.kind != SAMPLER]
    busy = sum(one.user_s + one.system_s for one in threads) / span.seconds if span.seconds > 0 else 0.0
    resident = sum(span.processes[pid].resident_bytes for pid in {one.pid for one in threads})
    left = f", {_gb(span.memory.available_bytes)} left" if span.memory else ""
    gpu_percents = [gpu.metrics[BUSY].mean for gpu in span.gpus.values() if BUSY in gpu.metrics]
    gpus = f", {sum(gpu_percents) / 100:.1f} of {number_of(len(gpu_percents), 'GPUs')} busy"
    return (
        f"{total.seconds:.0f} s: {number_of(len({one.pid for one in threads}), 'processes')}, "
        f"{number_of(len(threads), 'threads')} ({len(workers(span))} want to run), "
        f"{busy:.1f} cores busy, {_gb(resident)} in memory{left}{gpus if gpu_percents else ''}"
    )


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB"
