"""What a node did in an interval, as pictures need it: each thread, core and other process over time."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from chimbuko.monitor.samples.intervals import overlapping
from chimbuko.monitor.samples.nodebatch import NodeBatch, Rows, ThreadName
from chimbuko.monitor.samples.rows import CORE, OTHER, THREAD

MOST_POINTS = 2_000
"""Of one thread; where there are more, neighbours are left out."""
FINE_US = 300_000
"""Rows of so much at most are fast samples."""


class ThreadCourse(msgspec.Struct, frozen=True):
    """One thread over time: columns of equal length, one value for each interval, in order of time."""

    tid: int
    name: str
    rank: int
    """-1 where it is not known."""
    thread: int
    """As the trace numbers it; -1 where that does not say."""
    begin_us: list[int]
    length_us: list[int]
    ran_us: list[int]
    system_us: list[int]
    waited_us: list[int]
    """While it could have run and its core was another's."""
    faults: list[int]
    core: list[int]
    state: list[str]
    """At the end, the kernel's letter: T is stopped, D waits for a device."""


class CoreCourse(msgspec.Struct, frozen=True):
    """One hardware thread over time."""

    core: int
    begin_us: list[int]
    length_us: list[int]
    own_us: list[int]
    """Of threads of the program."""
    other_us: list[int]
    """Of all others."""


class OtherProcess(msgspec.Struct, frozen=True):
    """A process that is not of the program, and ran."""

    pid: int
    name: str
    user: str
    core: int
    """Where it ran last."""
    begin_us: int
    end_us: int
    ran_us: int


class NodeBeside(msgspec.Struct, frozen=True):
    """What is known of a node in an interval."""

    node: str
    begin_us: int
    end_us: int
    threads: list[ThreadCourse]
    """Main threads first, by rank."""
    cores: list[CoreCourse]
    others: list[OtherProcess]
    """Who ran most first."""


def node_beside(node: str, batches: Iterable[NodeBatch], begin_us: int, end_us: int) -> NodeBeside:
    """What batches of a node say of an interval."""
    known = [batch for batch in batches if batch.is_known]
    names = {name.tid: name for batch in known for name in batch.names}
    threads = _rows([batch.thread_rows() for batch in known], THREAD, begin_us, end_us)
    cores = _rows([batch.core_rows() for batch in known], CORE, begin_us, end_us)
    others = _rows([batch.other_rows() for batch in known], OTHER, begin_us, end_us)
    courses = [_thread(tid, names.get(tid), threads) for tid in np.unique(threads["tid"]).tolist()]
    courses.sort(key=lambda one: (one.thread != 0, one.rank, one.tid))
    found = [
        OtherProcess(
            int(row["pid"]),
            row["name"].decode(errors="replace"),
            row["user"].decode(errors="replace"),
            int(row["core"]),
            int(row["begin_us"]),
            int(row["begin_us"]) + int(row["length_us"]),
            int(row["ran_us"]),
        )
        for row in others
    ]
    found.sort(key=lambda one: (-one.ran_us, one.pid))
    all_cores = [_core(cpu, cores) for cpu in np.unique(cores["cpu"]).tolist()]
    return NodeBeside(node, begin_us, end_us, courses, all_cores, found)


def _rows(parts: list[Rows], dtype: np.dtype[np.void], begin_us: int, end_us: int) -> Rows:
    return overlapping(np.concatenate([np.zeros(0, dtype), *parts]), begin_us, end_us)


def _finest(rows: Rows) -> Rows:
    """Rows in order of time, without long ones that short ones are of."""
    rows = np.sort(rows, order=["begin_us", "length_us"])
    fine = rows[rows["length_us"] <= FINE_US]
    if len(fine) and len(fine) < len(rows):
        begins = fine["begin_us"]
        at = np.searchsorted(begins, rows["begin_us"])
        until = np.searchsorted(begins, rows["begin_us"] + rows["length_us"].astype(np.int64))
        rows = rows[(rows["length_us"] <= FINE_US) | (until == at)]
    step = -(-len(rows) // MOST_POINTS)
    return rows[:: max(1, step)]


def _thread(tid: int, name: ThreadName | None, rows: Rows) -> ThreadCourse:
    own = _finest(rows[rows["tid"] == tid])
    return ThreadCourse(
        tid=tid,
        name=name.name if name else "",
        rank=name.rank if name else -1,
        thread=name.thread if name else -1,
        begin_us=own["begin_us"].tolist(),
        length_us=own["length_us"].tolist(),
        ran_us=own["ran_us"].tolist(),
        system_us=own["system_us"].tolist(),
        waited_us=own["waited_us"].tolist(),
        faults=(own["minor_faults"] + own["major_faults"]).tolist(),
        core=own["core"].tolist(),
        state=[state.decode(errors="replace") for state in own["state"].tolist()],
    )


def _core(cpu: int, rows: Rows) -> CoreCourse:
    own = np.sort(rows[rows["cpu"] == cpu], order="begin_us")
    busy_us = own["user_us"].astype(np.int64) + own["system_us"] + own["steal_us"]
    own_us = np.minimum(own["own_us"], busy_us)
    return CoreCourse(
        cpu, own["begin_us"].tolist(), own["length_us"].tolist(), own_us.tolist(), (busy_us - own_us).tolist()
    )
