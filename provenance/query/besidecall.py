"""The node beside a call: what its thread did meanwhile, who else ran on its cores, what this explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag, flag_of
from chimbuko.causes.evidence.nodeevidence import AROUND_US, GpuActivity, NodeEvidence, called
from chimbuko.causes.evidence.threadactivity import STOPPED, ThreadActivity
from chimbuko.causes.kinds.split import split
from chimbuko.causes.part import Part
from chimbuko.core.calls.record import CallRecord
from chimbuko.monitor.procfs.systemcalls import FILES, LOCKS, SOCKETS
from chimbuko.monitor.sampling.nodebatch import ThreadName
from chimbuko.monitor.sampling.rows import Rows
from chimbuko.provenance.query.nodelist import FOREVER_US, NodeSamples
from chimbuko.provenance.query.runreader import RunReader


def evidence_of(reader: RunReader, calls: Sequence[CallRecord]) -> Evidence:
    """Return calls with what their nodes did meanwhile, and usually do.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    samples, evidence = NodeSamples(reader), Evidence()
    for call in calls:
        evidence.put(flag_of(call))
        for batch in samples.batches(call.entry_us - AROUND_US, _end_us(call) + AROUND_US, node=call.node):
            evidence.put_samples(batch)
    for node in {call.node for call in calls}:
        for batch in samples.batches(0, FOREVER_US, is_sum=True, node=node):
            evidence.put_samples(batch)
    return evidence


def parts_of(evidence: Evidence) -> list[Part]:
    """Return the parts of the time that all calls of a scene lost.

    Ranks may have lost more meanwhile, in no call.
    """
    calls = [flag for flag in evidence.flags.values() if flag.loss is None]
    return [part for flag in calls for part in split(flag, evidence)]


def _end_us(call: CallRecord) -> int:
    return call.exit_us or call.entry_us + call.inclusive_us


MOST_THREADS = 16
MOST_LOOKS = 400
"""Most looks at each thread: neighbours are put together in calls that are longer than 8 s."""
MARGIN_SHARE, LEAST_MARGIN_US = 0.2, 40_000
"""Time shown before and after the call: share of the call's time, and least time."""

What = Literal[
    "in the program",
    "in the kernel",
    "waited for a core",
    "waited for a core as usual",
    "stopped",
    "asleep for files",
    "asleep for sockets or pipes",
    "asleep for a lock",
    "asleep otherwise",
]


class TimeOf(msgspec.Struct, frozen=True):
    """Part of the time of a call."""

    what: What
    time_us: float


class Look(msgspec.Struct, frozen=True):
    """Activity of a thread from one look at it to the next."""

    begin_us: int
    length_us: int
    ran_us: int
    system_us: int
    """Part of the running time that was spent in the kernel."""
    waited_us: int
    """Time that the thread waited for a core."""
    state: str
    """State at its end, by the kernel's letter."""
    core: int
    minor_faults: int


class ThreadBeside(msgspec.Struct, frozen=True):
    """Thread of the program."""

    name: str
    is_own: bool
    """Whether the call is on this thread."""
    looks: list[Look]
    """Looks at the thread, in order of time."""


class CoreUse(msgspec.Struct, frozen=True):
    """Process or thread that ran on a core that the call's thread was on."""

    core: int
    by: str
    is_foreign: bool
    """Whether it is no process of the program."""
    ran_us: float


class GpuBeside(msgspec.Struct, frozen=True):
    """GPU that the call's process may use: shares of the time that the call lost, and of all time."""

    gpu: int
    busy_share: float
    """Share of the time in which a kernel ran."""
    usual_busy_share: float
    throttled_share: float
    """Share of the time in which it was slowed down."""
    usual_throttled_share: float
    foreign: int
    """Most processes that used it at once and are none of the program's."""


class NodeBeside(msgspec.Struct, frozen=True):
    """Node while a call went on."""

    from_us: int
    to_us: int
    """End of what is shown: the call with some time before and after it."""
    times: list[TimeOf]
    """Parts of the time that the call lost, by what its thread did; together all of that time."""
    minor_faults: float
    major_faults: float
    slices: float
    """Number of times that the thread was put on a core."""
    moves: int
    """Number of times that the thread was found on another core than before."""
    cores: list[CoreUse]
    gpus: list[GpuBeside]
    threads: list[ThreadBeside]
    """Threads of the program: the call's own one first, then those that ran most."""


def node_beside(reader: RunReader, call: CallRecord) -> NodeBeside | None:
    """Return what its node's samples say of a call; None if there are none of its thread.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    flag, evidence = flag_of(call), evidence_of(reader, [call]).nodes
    activity = evidence.activity(flag)
    return None if activity is None else _beside(flag, evidence, activity)


def _beside(flag: Flag, evidence: NodeEvidence, activity: ThreadActivity) -> NodeBeside:
    margin_us = max(LEAST_MARGIN_US, round(MARGIN_SHARE * flag.inclusive_us))
    begin_us, end_us = flag.entry_us - margin_us, flag.exit_us + margin_us
    own = (flag.program, flag.rank, flag.thread)
    found = [
        _thread(name, (name.program, name.rank, name.thread) == own, rows)
        for name, rows in evidence.threads(flag.node, begin_us, end_us)
    ]
    found.sort(key=lambda one: (not one.is_own, -sum(look.ran_us for look in one.looks)))
    return NodeBeside(
        from_us=begin_us,
        to_us=end_us,
        times=[TimeOf(what, us) for what, us in _times(activity) if us > 0],
        minor_faults=activity.minor_faults,
        major_faults=activity.major_faults,
        slices=activity.slices,
        moves=activity.moves,
        cores=[
            CoreUse(one.core, one.name, one.is_foreign, one.ran_us)
            for one in evidence.rivals(flag, activity.cores)
        ],
        gpus=[_gpu(one) for one in evidence.gpus(flag)],
        threads=found[:MOST_THREADS],
    )


def _gpu(one: GpuActivity) -> GpuBeside:
    now, usual = one.now, one.usual
    return GpuBeside(one.number, now.busy, usual.busy, now.throttled, usual.throttled, one.foreign)


def _times(activity: ThreadActivity) -> list[tuple[What, float]]:
    known = FILES | SOCKETS | LOCKS
    otherwise_us = sum(
        us for (state, call), us in activity.asleep_us.items() if state != STOPPED and call not in known
    )
    return [
        ("in the program", activity.ran_us - activity.system_us),
        ("in the kernel", activity.system_us),
        ("waited for a core", activity.waited_us),
        ("waited for a core as usual", activity.usual_wait_us),
        ("stopped", activity.stopped_us),
        ("asleep for files", activity.slept_us(FILES)),
        ("asleep for sockets or pipes", activity.slept_us(SOCKETS)),
        ("asleep for a lock", activity.slept_us(LOCKS)),
        ("asleep otherwise", otherwise_us),
    ]


def _thread(name: ThreadName, is_own: bool, rows: Rows) -> ThreadBeside:
    step = -(-len(rows) // MOST_LOOKS)
    looks = [_look(rows[at : at + step]) for at in range(0, len(rows), step)]
    return ThreadBeside(called(name), is_own, looks)


def _look(rows: Rows) -> Look:
    """Return rows that follow each other as one look."""
    first, last = rows[0], rows[-1]
    ran, system, waited, faults = (
        int(rows[name].sum()) for name in ("ran_us", "system_us", "waited_us", "minor_faults")
    )
    return Look(
        begin_us=int(first["begin_us"]),
        length_us=int(last["begin_us"]) + int(last["length_us"]) - int(first["begin_us"]),
        ran_us=ran,
        system_us=min(system, ran),
        waited_us=waited,
        state=last["state"].decode(),
        core=int(last["core"]),
        minor_faults=faults,
    )
