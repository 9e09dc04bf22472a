"""Pinning of our processes to cores."""

from __future__ import annotations

import os

from chimbuko.core.errors import ConfigError


def core_numbers(cores: str) -> set[int]:
    """Return the numbers in a list of cores such as ``0,2-5``.

    Raises
    ------
    ConfigError
        The text is no such list.
    """
    numbers: set[int] = set()
    for part in cores.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--cores {cores!r}: not a list of cores; give one like 0,2-5")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def pin(cores: str) -> None:
    """Keep this process, and those that it starts from now on, on a list of cores.

    Raises
    ------
    ConfigError
        The text is no list, or not all cores are available.
    """
    wanted, usable = core_numbers(cores), os.sched_getaffinity(0)
    if not wanted or not wanted <= usable:
        there_are = ",".join(map(str, sorted(usable)))
        raise ConfigError(f"--cores {cores}: not all of them can be used here; there are {there_are}")
    os.sched_setaffinity(0, wanted)
