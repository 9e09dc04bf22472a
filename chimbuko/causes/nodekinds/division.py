"""What a thread did while its call lost time, divided among causes: each µs counts for one of them at most.

Being stopped and waiting for a core beyond what is usual add to what a call does anyway. The rest of the
excess is divided as the rest of the time was spent: in the kernel, asleep, and in the program itself. Each of
these has its part of the wait for a core that is usual of the thread.
"""

from __future__ import annotations

from collections import defaultdict

from chimbuko.causes.evidence.nodescene import Group
from chimbuko.causes.evidence.part import Kind
from chimbuko.causes.evidence.threadtime import Seen
from chimbuko.monitor.procfs.systemcalls import FILES, LOCKS, SOCKETS

LEAST_SHARE = 0.1
"""Of the excess, that a part is named for: less is within what looks at a thread leave open."""
FULL = 0.95
"""Of the memory that its control group may use: from there on pages are made free for others."""
MAJOR_FAULT_US = 100.0
"""What it takes at least to read a page from storage."""
READ_SHARE = 0.5
"""Of its time in state D that pages read back take at least, where they are what it waited for."""
FAULT_US = 2.5
"""What a page fault takes at most, with clearing the page; of a call that has few of them it is no cause."""
LEAST_MOVES, LEAST_MOVED_SHARE = 3, 0.3
"""Of the looks at it: found on another core than before so often, it is moved all the time ..."""
SHORT_SLICE_US = 1000.0
"""... if it never stays longer on one. A core that threads share gives each of them 3 ms or so ..."""
LEAST_SLICES_PER_S = 1000.0
"""... and if it is put on one so often: fewer moves cost it 5 % of its time at most."""
COLD_US = 50.0
"""For so long it runs on each core that it comes to for being moved: the kernel's part, which ticks of 10 ms
hardly see, and the program's own with caches that are cold. To fill 1 MB of them takes as long."""
SLEPT_SHARE = 0.5
"""Of the time in which it did not run: who sleeps for files wakes up now here and now there."""


def divided(seen: Seen, group: Group, excess_us: float) -> dict[Kind, float]:
    """µs of each cause; what they leave of the excess is the program's own."""
    held_us = {Kind.STOPPED: seen.stopped_us, Kind.WAITED_FOR_CORE: seen.waited_us}
    used_us: defaultdict[Kind, float] = defaultdict(float)
    for kind, us in (*_asleep(seen, group), *_in_kernel(seen, group)):
        used_us[kind] += us
    usual_us = seen.usual_wait_us
    if is_moved(seen):
        # All that it did beside its own work is being moved, also the waits on each core that it comes to.
        moved_us = held_us.pop(Kind.WAITED_FOR_CORE) + usual_us + used_us.pop(Kind.SYSTEM_TIME, 0.0)
        moved_us += min(COLD_US * seen.moves, seen.ran_us - seen.system_us)
        held_us[Kind.MIGRATION] = moved_us + used_us.pop(Kind.STORAGE, 0.0)
        usual_us = 0.0
    rest_us = seen.length_us - sum(held_us.values()) - usual_us
    left_us = max(0.0, excess_us - sum(held_us.values()))
    of_rest = left_us / max(1.0, rest_us, sum(used_us.values()))
    return held_us | {kind: us * of_rest for kind, us in used_us.items()}


def is_moved(seen: Seen) -> bool:
    """Whether a thread was moved from core to core all the time."""
    is_often = seen.moves >= LEAST_MOVES and seen.moves >= LEAST_MOVED_SHARE * seen.looks
    is_short = seen.ran_us < SHORT_SLICE_US * seen.slices
    is_restless = 1e6 * seen.slices >= LEAST_SLICES_PER_S * seen.length_us
    slept_us = sum(map(seen.slept_us, (FILES, SOCKETS, LOCKS)))
    return is_often and is_short and is_restless and slept_us <= SLEPT_SHARE * (seen.length_us - seen.ran_us)


def _asleep(seen: Seen, group: Group) -> list[tuple[Kind, float]]:
    """By what it slept for."""
    read_us = MAJOR_FAULT_US * seen.major_faults
    is_read_back = read_us >= READ_SHARE * seen.device_us or group.memory_share >= FULL
    if seen.major_faults >= 1 and is_read_back:
        return [(Kind.MEMORY, max(seen.device_us, read_us))]
    sockets_us, locks_us = seen.slept_us(SOCKETS), seen.slept_us(LOCKS)
    in_device_us = sum(
        us
        for (state, call), us in seen.asleep_us.items()
        if call in FILES or (state == "D" and call not in SOCKETS and call not in LOCKS)
    )
    return [(Kind.STORAGE, in_device_us), (Kind.NETWORK, sockets_us), (Kind.HELD_LOCK, locks_us)]


def _in_kernel(seen: Seen, group: Group) -> list[tuple[Kind, float]]:
    """By what brought it into the kernel."""
    if group.memory_share >= FULL:
        return [(Kind.MEMORY, seen.system_us)]
    faults_us = min(seen.system_us, FAULT_US * seen.minor_faults)
    return [(Kind.PAGE_FAULTS, faults_us), (Kind.SYSTEM_TIME, seen.system_us - faults_us)]
