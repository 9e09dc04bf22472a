"""Files of the whole node (``stat``, ``meminfo``, ``pressure``), and control groups of versions 1 and 2."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from chimbuko.monitor.procfs.numbers import counter, counter_behind, counters

NO_LIMIT_BYTES = 2**60
"""Version 1 writes a number above this where there is no limit."""


class Membership(msgspec.Struct, frozen=True):
    """The groups of a process, as paths below the mount of their controller."""

    unified: str | None
    """Path in the hierarchy of version 2."""
    controllers: dict[str, str]
    """Paths in the hierarchies of version 1, by controller."""


def parse_membership(data: bytes) -> Membership:
    """``/proc/PID/cgroup``; damaged lines are left out."""
    unified, controllers = None, {}
    for line in data.decode(errors="replace").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or not parts[2].startswith("/") or ".." in parts[2].split("/"):
            continue
        if parts[0] == "0" and not parts[1]:
            unified = parts[2]
        for controller in filter(None, parts[1].split(",")):
            controllers[controller] = parts[2]
    return Membership(unified, controllers)


def parse_limit(data: bytes) -> int | None:
    """Return a limit of memory in bytes; None if there is none (``max``, or version 1's largest
    number).
    """
    limit = counter(data.strip())
    return None if limit is None or limit >= NO_LIMIT_BYTES else limit


def parse_throttling(data: bytes) -> int | None:
    """``cpu.stat`` of either version: for how long a group was kept from its cores, as its share of time was
    used up, in µs. None where the controller is off.
    """
    if counter_behind(data, b"nr_throttled ") is None:
        return None
    throttled_us = counter_behind(data, b"throttled_usec ")
    if throttled_us is None:
        throttled_us = (counter_behind(data, b"throttled_time ") or 0) // 1000
    return throttled_us


def parse_kills(data: bytes) -> int | None:
    """``memory.events``, or ``memory.oom_control`` of version 1: how many processes of a group the kernel
    killed for memory. None where that does not say.
    """
    return counter_behind(b"\n" + data, b"\noom_kill ")


class CoreTicks(NamedTuple):
    """Ticks of a hardware thread since the machine booted."""

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
    """``/proc/meminfo``; None if a line is missing. Without ``MemAvailable`` what is free is available."""
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
