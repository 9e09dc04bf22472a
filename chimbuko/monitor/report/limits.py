"""Findings about limits: memory that is nearly gone, and cores that a control group withholds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from chimbuko.core.units import format_share, number_of
from chimbuko.monitor.procfs.gpuspan import TEMPERATURE
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.finding import Finding, workers
from chimbuko.monitor.sampling.span import Span

LOW_SHARE = 0.05
STOLEN_SHARE = 0.05
"""Least share of the cores' time taken by the host that is reported; a quiet host takes below 1 %."""
THROTTLED_SHARE = 0.01
GPU_THROTTLED_SHARE = 0.1
"""Least share of samples with a throttled GPU that is reported. Each sample shows one moment only."""


def killed(span: Span) -> Iterator[Finding]:
    """Report processes that the kernel killed because their control group had no memory left."""
    for group in span.kills.values():
        who = number_of(group.processes, "processes")
        limit = "" if group.limit_bytes is None else f" of the {_size(group.limit_bytes)} that it may use"
        used = f", which used up to {_size(group.peak_bytes)}{limit}" if group.peak_bytes else ""
        yield Finding(
            "killed for memory",
            f"the kernel killed {who} (signal 9) of this program's control group{used}",
            "ask for more memory (--mem), or use fewer ranks on each node",
        )


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


def memory_filling(span: Span) -> Iterator[Finding]:
    """Memory that the program takes more of in each period, and by when it will be full."""
    one = span.filling
    if one is None:
        return
    whose = "the job's" if one.is_of_group else "the node's"
    at = datetime.fromtimestamp(one.full_us / 1e6)
    yield Finding(
        "memory filling",
        f"{whose} memory will be full at {at:%H:%M:%S}: {_size(one.taken_bytes)} of "
        f"{_size(one.limit_bytes)} are taken, and {_size(round(one.bytes_per_s))} more each second"
        f"{f'; process {one.pid} of this program holds most' if one.pid else ''}",
        "look for what it keeps and does not need, or ask for more memory (--mem)",
    )


def memory_growing(span: Span) -> Iterator[Finding]:
    """Processes that took more memory all the time, and kept it."""
    for one in span.growing:
        yield Finding(
            "memory growing",
            f"process {one.pid} ({one.name}) took {_size(one.bytes)} of memory in {one.seconds:.0f} s, "
            f"{_size(round(one.bytes / max(1e-6, one.seconds)))} more each second all the time, and kept it: "
            f"{_size(one.at_end_bytes)} at the end",
            "look for what it keeps and does not need, such as a list or a cache that only grows",
        )


def throttled(span: Span) -> Iterator[Finding]:
    """A control group keeps its processes from their cores."""
    longest = max((process.throttled_s for process in span.processes.values()), default=0.0)
    if span.seconds > 0 and longest > THROTTLED_SHARE * span.seconds:
        yield Finding(
            "throttled",
            f"its control group was kept from its cores for {longest:.1f} s of {span.seconds:.0f} s",
            "ask for more cores, or start fewer threads: the group's share of time (cpu.max) is used up",
        )


def without_throttling(span: Span) -> Span:
    """Return a span in which nobody waited for a core while the group was kept from it: that wait is nobody
    else's doing.
    """
    throttled_s = {pid: one.throttled_s for pid, one in span.processes.items() if one.throttled_s > 0}
    if not throttled_s:
        return span
    threads = {
        tid: replace(one, waited_s=max(0.0, one.waited_s - throttled_s[one.pid]))
        if one.waited_s and one.pid in throttled_s
        else one
        for tid, one in span.threads.items()
    }
    return replace(span, threads=threads)


def stolen(span: Span) -> Iterator[Finding]:
    """The host of a virtual machine takes cores that workers want."""
    cpus = {cpu for thread in workers(span) for cpu in thread.cpus} & span.cores.keys()
    stolen_s = sum(span.cores[cpu].steal_s for cpu in cpus)
    total_s = sum(span.cores[cpu].total_s for cpu in cpus)
    if total_s > 0 and stolen_s > STOLEN_SHARE * total_s:
        yield Finding(
            "stolen time",
            f"the host of this virtual machine took {format_share(stolen_s / total_s)} of the time of "
            f"core{'' if len(cpus) == 1 else 's'} {format_cpulist(cpus)}",
            "ask for a machine of your own, or one that is not shared with as many",
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


def _size(size_bytes: int) -> str:
    return _gb(size_bytes) if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MB"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB"
