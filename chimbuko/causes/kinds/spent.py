"""Causes that the activity of a thread shows: each µs of its time counts for one of them at most.

Being stopped and waiting for a core beyond what is usual add to what a call does anyway. The rest of the
excess is divided as the rest of the time was spent: in the kernel, asleep, and in the program itself. Each of
these has its part of the wait for a core that is usual of the thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.nodeevidence import Group
from chimbuko.causes.evidence.threadactivity import ASLEEP as SLEEPS
from chimbuko.causes.evidence.threadactivity import DEVICE, ThreadActivity
from chimbuko.causes.kinds.cause import Cause
from chimbuko.causes.part import HELD_UP, HeldUp, Part
from chimbuko.causes.wording import duration, size
from chimbuko.core.pauses import Pause
from chimbuko.core.units import number_of
from chimbuko.monitor.procfs.systemcalls import (
    CHILDREN,
    CONDITIONS,
    FILES,
    LOCKS,
    NAP_NAMES,
    NAPS,
    SOCKETS,
)

LEAST_SHARE = 0.1
"""Share of the excess from which a part is named: less is within the uncertainty of samples."""
FULL = 0.95
"""Share of the memory limit of a control group from which the kernel frees pages for others."""
MAJOR_FAULT_US = 100.0
"""Minimum time to read a page from storage."""
READ_SHARE = 0.5
"""Share of the time in state D that pages read back take at least, if the thread waited for them."""
FAULT_US, SLOW_FAULT_US = 2.5, 50.0
"""Usual time of a page fault, with clearing the page, and maximum time where a host has to find the page, as
it takes 30 µs in a virtual machine. Where a thread has one as often as that, it is in the kernel for them;
else it has few, and they are no cause."""
LEAST_MOVES, LEAST_MOVED_SHARE = 3, 0.3
"""Number and share of looks that find a thread on another core than before, if it is moved all the time."""
SHORT_SLICE_US = 1000.0
"""Maximum mean stay on a core of a thread that is moved all the time; a core that threads share gives each of
them about 3 ms."""
LEAST_SLICES_PER_S = 1000.0
"""Minimum rate at which such a thread is put on a core: fewer moves cost it at most 5 % of its time."""
COLD_US = 50.0
"""Time lost on each core that a thread is moved to: the kernel's part, which ticks of 10 ms hardly see, and
the program's own with cold caches. To fill 1 MB of them takes as long."""
SLEPT_SHARE = 0.5
"""Maximum share of its time off the core that such a thread sleeps: who sleeps for files wakes up on changing
cores."""
HOLDER_SHARE = 0.4
"""Share of the wait for a lock that another thread must have run to be named: a holder may sleep, too."""


def spent(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield each of these causes that explains no small part; none in a wait for other ranks, in which
    threads sleep.
    """
    yield from (part for part in _spent(flag, evidence) if part.kind != ASLEEP.id)


def asleep(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    """Yield the time in which a call slept because it wanted to, for which others may have a reason."""
    yield from (part for part in _spent(flag, evidence) if part.kind == ASLEEP.id)


def _spent(flag: Flag, evidence: Evidence) -> Iterator[Part]:
    activity = evidence.activity(flag)
    if activity is None or flag.is_wait:
        return
    counts: dict[str, float] = {
        MEMORY_PRESSURE.id: activity.major_faults,
        PAGE_FAULTS.id: activity.minor_faults,
        MIGRATION.id: activity.moves,
    }
    for kind, lost_us in divided(activity, evidence.nodes.group(flag), flag.excess_us).items():
        if kind not in HELD_UP and lost_us >= LEAST_SHARE * flag.excess_us:
            by = _by(kind, flag, evidence, activity, lost_us)
            if kind == STORAGE.id and by:
                counts[kind] = evidence.nodes.moved_bytes(flag, by)
            stood = flag.paused_us(Pause.STANDING)[0] if kind in _PROGRAMS_OWN else ""
            yield Part(kind, lost_us, stood, by=by, count=round(counts.get(kind, 0)))


def _by(kind: str, flag: Flag, evidence: Evidence, activity: ThreadActivity, lost_us: float) -> str:
    """Return what a thread slept for or in, or who ran meanwhile; empty if it is not known."""
    if kind in (HELD_LOCK.id, OTHER_THREAD.id):
        return "".join(evidence.nodes.siblings(flag, HOLDER_SHARE * lost_us)[:1])
    if kind in (STORAGE.id, CHILD.id):
        return evidence.nodes.awaited(flag)
    if kind == ASLEEP.id:
        napped_us = {call: us for (_, call), us in activity.asleep_us.items() if call in NAP_NAMES}
        return NAP_NAMES[max(napped_us, key=lambda call: (napped_us[call], call))]
    return ""


def divided(activity: ThreadActivity, group: Group, excess_us: float) -> dict[str, float]:
    """Return the µs of each cause; what they leave of the excess is the program's own."""
    held_us: dict[str, float] = {
        HeldUp.STOPPED: activity.stopped_us,
        HeldUp.WAITED_FOR_CORE: activity.waited_us,
    }
    used_us: defaultdict[str, float] = defaultdict(float)
    for cause, us in (*_asleep(activity, group), *_in_kernel(activity, group)):
        used_us[cause.id] += us
    usual_us = activity.usual_wait_us
    if is_moved(activity):
        # All that it did beside its own work is being moved, also the waits on each core that it comes to.
        moved_us = held_us.pop(HeldUp.WAITED_FOR_CORE) + usual_us + used_us.pop(SYSTEM_TIME.id, 0.0)
        moved_us += min(COLD_US * activity.moves, activity.ran_us - activity.system_us)
        held_us[MIGRATION.id] = moved_us + used_us.pop(STORAGE.id, 0.0)
        usual_us = 0.0
    rest_us = activity.length_us - sum(held_us.values()) - usual_us
    left_us = max(0.0, excess_us - sum(held_us.values()))
    of_rest = left_us / max(1.0, rest_us, sum(used_us.values()))
    return held_us | {kind: us * of_rest for kind, us in used_us.items()}


def is_moved(activity: ThreadActivity) -> bool:
    """Whether a thread was moved from core to core all the time."""
    is_often = activity.moves >= LEAST_MOVES and activity.moves >= LEAST_MOVED_SHARE * activity.looks
    is_short = activity.ran_us < SHORT_SLICE_US * activity.slices
    is_restless = 1e6 * activity.slices >= LEAST_SLICES_PER_S * activity.length_us
    slept_us = sum(map(activity.slept_us, (FILES, SOCKETS, LOCKS, CONDITIONS)))
    off_core_us = activity.length_us - activity.ran_us
    return is_often and is_short and is_restless and slept_us <= SLEPT_SHARE * off_core_us


def _asleep(activity: ThreadActivity, group: Group) -> list[tuple[Cause, float]]:
    """Return the time asleep by what the thread slept for."""
    read_us = MAJOR_FAULT_US * activity.major_faults
    is_read_back = read_us >= READ_SHARE * activity.device_us or group.memory_share >= FULL
    if activity.major_faults >= 1 and is_read_back:
        return [(MEMORY_PRESSURE, max(activity.device_us, read_us))]
    in_device_us = sum(
        us
        for (state, call), us in activity.asleep_us.items()
        if call in FILES or (state == DEVICE and call not in _NO_DEVICE)
    )
    napped_us = sum(
        us for (state, call), us in activity.asleep_us.items() if call in NAPS and state == SLEEPS
    )
    found = [(cause, activity.slept_us(calls)) for cause, calls in _SLEEPS_FOR.items()]
    return [(STORAGE, in_device_us), (ASLEEP, napped_us), *found]


def _in_kernel(activity: ThreadActivity, group: Group) -> list[tuple[Cause, float]]:
    """Return the time in the kernel by what brought the thread there."""
    if group.memory_share >= FULL:
        return [(MEMORY_PRESSURE, activity.system_us)]
    is_faulting = activity.system_us <= SLOW_FAULT_US * activity.minor_faults
    faults_us = activity.system_us if is_faulting else FAULT_US * activity.minor_faults
    return [(PAGE_FAULTS, faults_us), (SYSTEM_TIME, activity.system_us - faults_us)]


def _clause_of_thread(part: Part, rank: int | None) -> str:
    ran = f", while its thread {part.by} ran" if part.by else ""
    return f"as it waited {duration(part.lost_us)} for another thread{_in(part.function)}{ran}"


def _clause_of_sleep(part: Part, rank: int | None) -> str:
    return f"as it slept {duration(part.lost_us)}{_in(part.function)}{_in_brackets(part.by)}"


def _in(function: str) -> str:
    return f" in {function}" if function else ""


def _clause_of_memory(part: Part, rank: int | None) -> str:
    read = f", with {number_of(part.count, 'pages')} read back" if part.count else ""
    return f"as memory was short for {duration(part.lost_us)}{read}"


def _clause_of_storage(part: Part, rank: int | None) -> str:
    of_file = f"{part.by}, {size(part.count)}" if part.count else part.by
    return f"as it waited {duration(part.lost_us)} for storage{_in_brackets(of_file)}"


def _in_brackets(name: str) -> str:
    return f" ({name})" if name else ""


def _clause_of_lock(part: Part, rank: int | None) -> str:
    whose = f"while its thread {part.by} ran" if part.by else "which somebody else held"
    return f"as it waited {duration(part.lost_us)} for a lock, {whose}"


PAGE_FAULTS = Cause(
    id="page faults",
    colour="node",
    text="getting memory from the kernel, in {count page fault}",
    is_in_node=True,
    find=spent,
    clause=lambda part, rank: f"as {number_of(part.count, 'page faults')} took {duration(part.lost_us)}",
    recurring="had page faults",
)
MEMORY_PRESSURE = Cause(
    id="memory pressure",
    colour="node",
    text="while the node was short of memory",
    is_in_node=True,
    find=spent,
    clause=_clause_of_memory,
    recurring="{was} short of memory",
)
MIGRATION = Cause(
    id="migration",
    colour="node",
    text="being moved from core to core",
    is_in_node=True,
    find=spent,
    clause=lambda part, rank: (
        f"as it was moved from core to core all the time, which took {duration(part.lost_us)}"
    ),
    recurring="{was} moved from core to core",
)
STORAGE = Cause(
    id="storage",
    colour="node",
    text="waiting for storage[, for {by}]",
    is_in_node=True,
    find=spent,
    clause=_clause_of_storage,
    recurring="waited for storage",
)
NETWORK = Cause(
    id="network",
    colour="node",
    text="waiting for a socket or a pipe",
    is_in_node=True,
    find=spent,
    clause=lambda part, rank: f"as it waited {duration(part.lost_us)} for a socket or a pipe",
    recurring="waited for a socket or a pipe",
)
HELD_LOCK = Cause(
    id="held lock",
    colour="node",
    text="waiting for a lock[ while its thread {by} ran]",
    is_in_node=True,
    find=spent,
    clause=_clause_of_lock,
    recurring="waited for a lock",
)
SYSTEM_TIME = Cause(
    id="system time",
    colour="node",
    text="in the kernel, for its system calls",
    is_in_node=True,
    find=spent,
    # With the waits for a core within them, which is not time of the kernel.
    clause=lambda part, rank: f"as its system calls took {duration(part.lost_us)}",
    recurring="{was} in the kernel, for {its} system calls",
)
ASLEEP = Cause(
    id="asleep",
    colour="program",
    text="asleep, as it wanted to be[, in {function}][ ({by})]",
    find=asleep,
    clause=_clause_of_sleep,
)
CHILD = Cause(
    id="waited for process",
    colour="program",
    text="waiting for its child process[ {by}] to end",
    find=spent,
    clause=lambda part, rank: (
        f"as it waited {duration(part.lost_us)} for its child process {part.by}".rstrip() + " to end"
    ),
)
OTHER_THREAD = Cause(
    id="waited for thread",
    colour="program",
    text="waiting for another thread[, in {function}][, while {by} ran]",
    find=spent,
    clause=_clause_of_thread,
)
_SLEEPS_FOR = {NETWORK: SOCKETS, HELD_LOCK: LOCKS, CHILD: CHILDREN, OTHER_THREAD: CONDITIONS}
_NO_DEVICE = frozenset[int]().union(*_SLEEPS_FOR.values())
"""System calls in which a thread waits for no device, whatever its state is."""
_PROGRAMS_OWN = frozenset([ASLEEP.id, CHILD.id, OTHER_THREAD.id])
"""Causes that name the function in which the program's thread stood still."""
