"""Files of the whole node: ``stat``, ``meminfo``, ``pressure``."""

from __future__ import annotations

from typing import NamedTuple

from chimbuko.monitor.procfs.numbers import counter, counter_behind, counters


class CoreTicks(NamedTuple):
    """What a hardware thread has done since the machine booted, in ticks."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int
    guest: int
    """Contained in ``user``."""
    guest_nice: int
    """Contained in ``nice``."""


_MISSING = [0] * 10


def parse_cores(data: bytes) -> dict[int, CoreTicks]:
    """``/proc/stat`` by the number of the hardware thread; what is offline is not in it.

    Kernels that count fewer kinds of time have 0 for the others; damaged lines are left out.
    """
    found = {}
    # They stand first; the counts of interrupts behind them are many times as long.
    end = data.find(b"\nintr ")
    for line in data[: end if end >= 0 else len(data)].split(b"\ncpu")[1:]:
        number, _, rest = line.partition(b" ")
        cpu, ticks = counter(number), counters(rest)
        if cpu is not None and ticks and len(ticks) >= 4:
            found[cpu] = CoreTicks._make((ticks + _MISSING)[:10])
    return found


class NodeMemory(NamedTuple):
    """Memory of the node, in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int


def parse_meminfo(data: bytes) -> NodeMemory | None:
    """``/proc/meminfo``; None where a line is missing. Without ``MemAvailable`` what is free is available."""
    total, free = counter_behind(data, b"MemTotal:"), counter_behind(data, b"MemFree:")
    available = counter_behind(data, b"MemAvailable:")
    if total is None or free is None:
        return None
    return NodeMemory(1024 * total, 1024 * free, 1024 * (free if available is None else available))


def parse_pressure(data: bytes) -> int | None:
    """``/proc/pressure/cpu``, ``memory`` or ``io``: for how long some task could not go on since the machine
    booted, in µs. None where it is damaged.
    """
    some = data.partition(b"\n")[0]
    return counter(some.rpartition(b"total=")[2]) if some.startswith(b"some ") else None
