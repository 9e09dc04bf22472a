"""Control groups, versions 1 and 2: where a process is, and what its group may use."""

from __future__ import annotations

from dataclasses import dataclass

from chimbuko.monitor.procfs.numbers import counter, counter_behind

NO_LIMIT_BYTES = 2**60
"""Version 1 writes a number above this where there is no limit."""


@dataclass(frozen=True)
class Membership:
    """The groups of a process, as paths below the mount of their controller."""

    unified: str | None
    """Of version 2."""
    controllers: dict[str, str]
    """Of version 1, by controller."""


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
    """A limit of memory in bytes; None where there is none (``max``, or version 1's largest number)."""
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
