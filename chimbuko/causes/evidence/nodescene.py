"""What nodes did while calls were slow: samples by thread, core and time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from chimbuko.causes.evidence.flag import Flag
from chimbuko.monitor.samples.intervals import overlapping, overlaps_us
from chimbuko.monitor.samples.nodebatch import NodeBatch, Rows, ThreadName

FINE_US = 300_000
"""Rows of so much at most say when something happened."""
COVERED = 0.6
"""Of the time that was lost, which fine rows have to be of; else those of a period are taken."""
LEAST_OF_ROW = 0.1
"""A fine row of which less lies in a call is left out."""


@dataclass(frozen=True)
class Rival:
    """Somebody else who ran on a core."""

    name: str
    """As sentences name it."""
    is_foreign: bool
    ran_us: float
    """On this core, in the time in question at most."""
    core: int


@dataclass(frozen=True)
class Seen:
    """What one thread did while a call of it lost time. All but ``is_fine`` in µs of that time or counts."""

    length_us: int
    is_fine: bool
    """Seen in steps that are short enough to say that it happened in the call, and not beside it."""
    ran_us: float
    waited_us: float
    system_us: float
    stopped_us: float
    device_us: float
    """It slept and could not be woken: for storage, as a rule."""
    asleep_us: dict[int, float] = field(default_factory=dict)
    """By the number of the system call that it slept in."""
    minor_faults: float = 0.0
    major_faults: float = 0.0
    moves: int = 0
    """How often it was found on another core than before."""
    looks: int = 0
    rivals: tuple[Rival, ...] = ()
    """Who ran on its cores meanwhile, most first."""
    siblings: tuple[str, ...] = ()
    """Other threads of its process that ran meanwhile."""
    memory_stall_us: float = 0.0
    throttled_us: float = 0.0
    group_share: float = 0.0
    """How much of the memory that its control group may use was used; 0 without a limit."""


class _NodeRows:
    """Rows of one node."""

    def __init__(self) -> None:
        self.sequences: set[int] = set()
        self.threads: dict[int, list[Rows]] = defaultdict(list)
        self.others: list[Rows] = []
        self.states: list[Rows] = []
        self.names: dict[int, ThreadName] = {}

    def add(self, batch: NodeBatch) -> None:
        self.sequences.add(batch.sequence)
        self.names |= {one.tid: one for one in batch.names}
        rows = np.sort(batch.thread_rows(), order="tid")
        for of_thread in np.split(rows, np.flatnonzero(np.diff(rows["tid"])) + 1):
            if len(of_thread):
                self.threads[int(of_thread["tid"][0])].append(of_thread)
        self.others.append(batch.other_rows())
        self.states.append(batch.state_rows())

    def of_thread(self, tid: int) -> Rows:
        found = self.threads[tid]
        if len(found) > 1:
            found[:] = [np.concatenate(found)]
        return found[0]

    def forget_before(self, time_us: int) -> None:
        for tid in list(self.threads):
            kept = self.of_thread(tid)
            kept = kept[kept["begin_us"] >= time_us]
            self.threads[tid] = [kept]
            if not len(kept):
                del self.threads[tid]
        for rows in (self.others, self.states):
            rows[:] = [kept for some in rows if len(kept := some[some["begin_us"] >= time_us])]


class NodeScene:
    """Samples of all nodes, as far as they may explain calls."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeRows] = defaultdict(_NodeRows)
        self._threads: dict[tuple[str, int, int, int], int] = {}
        """Number of a thread on its node, by node, program, rank and thread of the trace."""

    def add(self, batch: NodeBatch) -> bool:
        """Samples of a node; False where they are known, or cannot be read."""
        if batch.is_sum or not batch.is_known or batch.sequence in self._nodes[batch.node].sequences:
            return False
        self._nodes[batch.node].add(batch)
        for one in batch.names:
            if one.thread >= 0:
                self._threads[batch.node, one.program, one.rank, one.thread] = one.tid
        return True

    def forget_before(self, time_us: int) -> None:
        """Let go of samples from before a time."""
        for rows in self._nodes.values():
            rows.forget_before(time_us)

    def seen(self, flag: Flag) -> Seen | None:
        """What the thread of a call did while that lost time; None where nothing is known."""
        tid = self._threads.get((flag.node, flag.program, flag.rank, flag.thread))
        node = self._nodes.get(flag.node)
        if tid is None or node is None or tid not in node.threads:
            return None
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        length_us = end_us - begin_us
        if length_us <= 0:
            return None
        rows = overlapping(node.of_thread(tid), begin_us, end_us)
        rows, is_fine = _best(rows, begin_us, end_us)
        if not len(rows):
            return None
        overlap_us = overlaps_us(rows, begin_us, end_us)
        # Of what a row says as much as can have happened in the call, for an ordinary call is not flagged.
        share = overlap_us / rows["length_us"] if is_fine else np.ones(len(rows))
        state = rows["state"]
        still = np.maximum(overlap_us - rows["ran_us"] - rows["waited_us"].astype(float), 0.0)
        asleep: Counter[int] = Counter()
        for call, us in zip(rows["call"][state == b"S"].tolist(), still[state == b"S"].tolist(), strict=True):
            asleep[call] += us
        memory_stall_us, throttled_us, group_share = _state(node.states, begin_us, end_us)
        within = np.minimum
        return Seen(
            length_us=length_us,
            is_fine=is_fine,
            ran_us=float(within(rows["ran_us"], overlap_us).sum()),
            waited_us=float(within(rows["waited_us"], overlap_us).sum()),
            system_us=float(within(rows["system_us"] * share, overlap_us).sum()),
            stopped_us=float(still[np.isin(state, (b"T", b"t"))].sum()),
            device_us=float(still[state == b"D"].sum()),
            asleep_us=dict(asleep),
            minor_faults=float((rows["minor_faults"] * share).sum()),
            major_faults=float((rows["major_faults"] * share).sum()),
            moves=int(rows["migrations"].sum()),
            looks=len(rows),
            rivals=_rivals(node, tid, rows, begin_us, end_us),
            siblings=_siblings(node, tid, begin_us, end_us),
            memory_stall_us=memory_stall_us,
            throttled_us=throttled_us,
            group_share=group_share,
        )


def _best(rows: Rows, begin_us: int, end_us: int) -> tuple[Rows, bool]:
    """The fine rows of an interval where they are of most of it, else the others; whether they are fine."""
    is_fine = rows["length_us"] <= FINE_US
    fine = rows[is_fine]
    overlap_us = overlaps_us(fine, begin_us, end_us)
    if overlap_us.sum() >= COVERED * (end_us - begin_us):
        return fine[overlap_us >= LEAST_OF_ROW * fine["length_us"]], True
    return rows[~is_fine], False


def _rivals(node: _NodeRows, tid: int, own: Rows, begin_us: int, end_us: int) -> tuple[Rival, ...]:
    """Who else ran on the cores of a thread, with what each of them may have run in the time."""
    cores = set(own["core"].tolist())
    ran: Counter[tuple[str, bool, int]] = Counter()
    for other in list(node.threads):
        if other == tid:
            continue
        rows, _ = _best(overlapping(node.of_thread(other), begin_us, end_us), begin_us, end_us)
        name = _called(node.names.get(other), other)
        for row in rows[np.isin(rows["core"], list(cores))]:
            part_us = int(overlaps_us(row[np.newaxis], begin_us, end_us)[0])
            ran[name, False, int(row["core"])] += min(int(row["ran_us"]), part_us)
    for some in node.others:
        for row in overlapping(some, begin_us, end_us):
            if int(row["core"]) in cores:
                name, user = row["name"].decode(errors="replace"), row["user"].decode(errors="replace")
                # Several looks may have seen it run, each a part of the time.
                part_us = int(overlaps_us(row[np.newaxis], begin_us, end_us)[0])
                ran_us = part_us * min(1.0, int(row["ran_us"]) / int(row["length_us"]))
                ran[f"{name} ({user}, process {row['pid']})", True, int(row["core"])] += round(ran_us)
    found = (Rival(name, is_foreign, us, core) for (name, is_foreign, core), us in ran.items() if us > 0)
    return tuple(sorted(found, key=lambda rival: (-rival.ran_us, rival.name)))


def _siblings(node: _NodeRows, tid: int, begin_us: int, end_us: int) -> tuple[str, ...]:
    own = node.names.get(tid)
    found: Counter[str] = Counter()
    for other, name in node.names.items():
        if own is None or other == tid or name.pid != own.pid or other not in node.threads:
            continue
        rows, _ = _best(overlapping(node.of_thread(other), begin_us, end_us), begin_us, end_us)
        ran_us = int(np.minimum(rows["ran_us"], overlaps_us(rows, begin_us, end_us)).sum())
        if ran_us > 0:
            found[name.name] += ran_us
    return tuple(name for name, _ in found.most_common())


def _called(name: ThreadName | None, tid: int) -> str:
    if name is None:
        return f"thread {tid}"
    return f"rank {name.rank}" if name.thread == 0 else f"{name.name} of rank {name.rank}"


def _state(states: Iterable[Rows], begin_us: int, end_us: int) -> tuple[float, float, float]:
    """Stall for memory, throttling and the share of the group's memory in an interval, at most."""
    stall_us = throttled_us = share = 0.0
    for some in states:
        rows = overlapping(some, begin_us, end_us)
        if not len(rows):
            continue
        overlap_us = overlaps_us(rows, begin_us, end_us)
        stall_us += float(np.minimum(rows["memory_stall_us"], overlap_us).sum())
        throttled_us += float(np.minimum(rows["throttled_us"], overlap_us).sum())
        limited = rows[rows["group_limit_bytes"] > 0]
        if len(limited):
            share = max(share, float((limited["group_used_bytes"] / limited["group_limit_bytes"]).max()))
    return stall_us, throttled_us, share
