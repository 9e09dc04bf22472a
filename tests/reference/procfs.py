"""Slow and obvious twins of the parsers that read each thread each period, by the fields of proc(5)."""

from __future__ import annotations

import re

LARGEST = 2**64 - 1


def stat(data: bytes) -> tuple[int, str, str, int, int, int, int, int, int, int] | None:
    """Number, name, state, parent, minor and major faults, user and system ticks, start, processor."""
    found = re.match(rb"([0-9]+) \((.*)\) (.) (.*)\Z", data, re.DOTALL)
    if found is None:
        return None
    fields: dict[int, bytes] = dict(enumerate(found[4].split(), start=4))
    picked = [fields.get(number, b"x") for number in (4, 10, 12, 14, 15, 22, 39)]
    if not all(word.isdigit() and int(word) <= LARGEST for word in (found[1], *picked)):
        return None
    parent, minor, major, user, system, start, processor = map(int, picked)
    name, state = found[2].decode(errors="replace"), found[3].decode(errors="replace")
    return int(found[1]), name, state, parent, minor, major, user, system, start, processor


def status(data: bytes) -> tuple[int, int, str] | None:
    """Voluntary and involuntary switches, and the list of CPUs."""
    lines = dict(line.split(b":\t", 1) for line in data.split(b"\n") if b":\t" in line)
    names = (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches", b"Cpus_allowed_list")
    if not all(lines.get(name) for name in names):
        return None
    voluntary, involuntary, cpus = (lines[name] for name in names)
    return int(voluntary), int(involuntary), cpus.decode(errors="replace")


def schedstat(data: bytes) -> tuple[int, int, int] | None:
    """Nanoseconds that it ran, and that it waited; how often it was put on a core."""
    words = data.split()
    if len(words) != 3 or not all(word.isdigit() and int(word) <= LARGEST for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2])


def memory(data: bytes) -> tuple[int, int, int]:
    """Resident, peak and swapped memory of a process in bytes."""
    found = {}
    for line in data.split(b"\n"):
        name, _, rest = line.partition(b":")
        if rest.split() and rest.split()[0].isdigit():
            found[name] = 1024 * int(rest.split()[0])
    resident = found.get(b"VmRSS", 0)
    return resident, max(found.get(b"VmHWM", 0), resident), found.get(b"VmSwap", 0)
