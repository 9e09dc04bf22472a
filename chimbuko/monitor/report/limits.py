"""Findings about limits: memory that is nearly gone, and cores that a control group withholds."""

from __future__ import annotations

from collections.abc import Iterator

from chimbuko.core.units import format_share
from chimbuko.monitor.procfs.gpuspan import TEMPERATURE
from chimbuko.monitor.report.finding import Finding
from chimbuko.monitor.sampling.span import Span

LOW_SHARE = 0.05
THROTTLED_SHARE = 0.01
GPU_THROTTLED_SHARE = 0.1
"""Share of the samples in which a GPU is throttled, each seen at its own moment."""


def memory_low(span: Span) -> Iterator[Finding]:
    """Return a finding where less than a twentieth of the memory of node or control group is left."""
    own = sum(process.resident_bytes for process in span.processes.values())
    memory = span.memory
    if memory and memory.total_bytes and memory.available_bytes < LOW_SHARE * memory.total_bytes:
        used = memory.total_bytes - memory.available_bytes
        mine = own >= used / 2
        yield Finding(
            "memory low",
            f"{_gb(memory.available_bytes)} of the node's {_gb(memory.total_bytes)} are left; "
            f"this program holds {_gb(own)}",
            "use fewer ranks on each node" if mine else "look for what else holds memory there (top -o RES)",
        )
    for process in span.processes.values():
        group = process.group
        if group and group.limit_bytes and group.used_bytes > (1 - LOW_SHARE) * group.limit_bytes:
            yield Finding(
                "memory low",
                f"{_gb(group.used_bytes)} of the {_gb(group.limit_bytes)} that the job may use are taken",
                "ask for more memory (--mem), or use fewer ranks on each node",
            )
            return


def throttled(span: Span) -> Iterator[Finding]:
    """A control group keeps its processes from their cores."""
    longest = max((process.throttled_s for process in span.processes.values()), default=0.0)
    if span.seconds > 0 and longest > THROTTLED_SHARE * span.seconds:
        yield Finding(
            "throttled",
            f"its control group was kept from its cores for {longest:.1f} s of {span.seconds:.0f} s",
            "ask for more cores, or start fewer threads: the group's share of time (cpu.max) is used up",
        )


def gpu_throttled(span: Span) -> Iterator[Finding]:
    """GPUs that ran slower than they could."""
    for number, gpu in sorted(span.gpus.items()):
        share = gpu.throttled_periods / gpu.periods
        if share > GPU_THROTTLED_SHARE:
            heat = gpu.metrics.get(TEMPERATURE)
            yield Finding(
                "GPU throttled",
                f"GPU {number} ({gpu.name}) was slowed down, for heat or by its power supply, "
                f"in {format_share(share)} of the time"
                f"{'' if heat is None else f', at up to {heat.most:.0f} °C'}",
                "use another node, and report this one to those who run it",
            )


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB"
