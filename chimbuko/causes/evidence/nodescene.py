"""What nodes did while calls were slow: samples by thread, core and time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.threadtime import Seen, Usual, seen_in
from chimbuko.monitor.samples.intervals import overlapping, overlaps_us
from chimbuko.monitor.samples.nodebatch import NodeBatch, Rows, ThreadName

COVERED = 0.6
"""Of the time that was lost, which looks at the thread have to be of; else those of a period are taken."""
AROUND_US = 1_000_000
"""Before and after a call: what its thread did there is usual of it."""


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
class Group:
    """What the control groups of a node's ranks were short of in an interval."""

    throttled_us: float = 0.0
    """Kept from their cores, at most."""
    memory_share: float = 0.0
    """How much of the memory that the fullest of them may use was used; 0 without a limit."""


class _RowsOfThreads:
    """Rows by thread."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Rows]] = defaultdict(list)

    def add(self, rows: Rows) -> None:
        rows = np.sort(rows, order="tid")
        for of_thread in np.split(rows, np.flatnonzero(np.diff(rows["tid"])) + 1):
            if len(of_thread):
                self._rows[int(of_thread["tid"][0])].append(of_thread)

    def during(self, tid: int, begin_us: int, end_us: int) -> Rows:
        found = self._rows.get(tid)
        if found is None:
            return np.zeros(0, _NO_ROWS)
        if len(found) > 1:
            found[:] = [np.concatenate(found)]
        return overlapping(found[0], begin_us, end_us)

    def forget_before(self, time_us: int) -> None:
        for tid, found in list(self._rows.items()):
            kept = np.concatenate(found)
            kept = kept[kept["begin_us"] >= time_us]
            self._rows[tid] = [kept]
            if not len(kept):
                del self._rows[tid]


_NO_ROWS = NodeBatch("", 0, False, 0, 0, []).thread_rows().dtype


class _NodeRows:
    """Rows of one node."""

    def __init__(self) -> None:
        self.sequences: set[int] = set()
        self.looks = _RowsOfThreads()
        self.periods = _RowsOfThreads()
        self.others: list[Rows] = []
        self.states: list[Rows] = []
        self.names: dict[int, ThreadName] = {}

    def add(self, batch: NodeBatch) -> None:
        self.sequences.add(batch.sequence)
        self.names |= {one.tid: one for one in batch.names}
        self.looks.add(batch.look_rows())
        self.periods.add(batch.thread_rows())
        self.others.append(batch.other_rows())
        self.states.append(batch.state_rows())

    def best(self, tid: int, begin_us: int, end_us: int) -> Rows:
        """Looks at a thread in an interval where they are of most of it, else rows of periods."""
        rows = self.looks.during(tid, begin_us, end_us)
        if overlaps_us(rows, begin_us, end_us).sum() >= COVERED * (end_us - begin_us):
            return rows
        return self.periods.during(tid, begin_us, end_us)

    def forget_before(self, time_us: int) -> None:
        self.looks.forget_before(time_us)
        self.periods.forget_before(time_us)
        for rows in (self.others, self.states):
            rows[:] = [kept for some in rows if len(kept := some[some["begin_us"] >= time_us])]


class NodeScene:
    """Samples of all nodes, as far as they may explain calls."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeRows] = defaultdict(_NodeRows)
        self._usual: defaultdict[tuple[str, int], Usual] = defaultdict(Usual)
        """What threads did in all sums, by node and number."""
        self._threads: dict[tuple[str, int, int, int], int] = {}
        """Number of a thread on its node, by node, program, rank and thread of the trace."""

    def add(self, batch: NodeBatch) -> bool:
        """Samples of a node. False where they explain no calls, are known already, or cannot be read."""
        if not batch.is_known or batch.sequence in self._nodes[batch.node].sequences:
            return False
        if batch.is_sum:
            self._add_sum(batch)
            return False
        self._nodes[batch.node].add(batch)
        for one in batch.names:
            if one.thread >= 0:
                self._threads[batch.node, one.program, one.rank, one.thread] = one.tid
        return True

    def _add_sum(self, batch: NodeBatch) -> None:
        self._nodes[batch.node].sequences.add(batch.sequence)
        for row in batch.thread_rows():
            key = batch.node, int(row["tid"])
            self._usual[key] = self._usual[key].and_also(row[np.newaxis])

    def forget_before(self, time_us: int) -> None:
        """Let go of samples from before a time, but not of what is usual."""
        for rows in self._nodes.values():
            rows.forget_before(time_us)

    def seen(self, flag: Flag, disturbed: Iterable[tuple[int, int]] = ()) -> Seen | None:
        """What the thread of a call did while that lost time; None where nothing is known.

        Parameters
        ----------
        disturbed
            When other calls of the thread were slow: then it was not as usual.
        """
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        tid = self._tid(flag)
        if tid is None or end_us <= begin_us:
            return None
        node = self._nodes[flag.node]
        own = node.best(tid, begin_us, end_us)
        if not len(own):
            return None
        around = node.looks.during(tid, begin_us - AROUND_US, end_us + AROUND_US)
        beside = around[overlaps_us(around, begin_us, end_us) == 0]
        usual = self._usual.get((flag.node, tid))
        return seen_in(np.concatenate([own, beside]), begin_us, end_us, disturbed, usual)

    def rivals(self, flag: Flag, cores: Iterable[int]) -> tuple[Rival, ...]:
        """Who else ran on cores while a call lost time, most first."""
        node, own = self._nodes[flag.node], self._tid(flag)
        begin_us, end_us, wanted = flag.lost_from_us, flag.lost_to_us, list(cores)
        ran: defaultdict[tuple[str, bool, int], float] = defaultdict(float)
        for tid, name in node.names.items():
            if tid == own:
                continue
            rows = node.best(tid, begin_us, end_us)
            # One that was found elsewhere before ran there for some of the time, nobody knows how long.
            rows = rows[np.isin(rows["core"], wanted) & (rows["migrations"] == 0)]
            for core, us in zip(rows["core"].tolist(), _ran_us(rows, begin_us, end_us), strict=True):
                ran[called(name), False, core] += us
        for some in node.others:
            rows = overlapping(some, begin_us, end_us)
            rows = rows[np.isin(rows["core"], wanted)]
            for row, us in zip(rows, _ran_us(rows, begin_us, end_us), strict=True):
                name_of, user = (row[what].decode(errors="replace") for what in ("name", "user"))
                ran[f"{name_of} ({user}, process {row['pid']})", True, int(row["core"])] += us
        found = (Rival(name, is_foreign, us, core) for (name, is_foreign, core), us in ran.items() if us > 0)
        return tuple(sorted(found, key=lambda rival: (-rival.ran_us, rival.name)))

    def threads(self, node: str, begin_us: int, end_us: int) -> Iterator[tuple[ThreadName, Rows]]:
        """Threads of a node, each with the best THREAD rows of an interval, in order of time."""
        of_node = self._nodes[node]
        for tid, name in of_node.names.items():
            rows = of_node.best(tid, begin_us, end_us)
            if len(rows):
                yield name, rows[np.argsort(rows["begin_us"])]

    def siblings(self, flag: Flag) -> tuple[str, ...]:
        """Other threads of a call's process that ran while it lost time, most first."""
        node, own = self._nodes[flag.node], self._tid(flag)
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        pid = node.names[own].pid if own in node.names else None
        ran: Counter[str] = Counter()
        for tid, name in node.names.items():
            if name.pid == pid and tid != own:
                ran[name.name] += round(sum(_ran_us(node.best(tid, begin_us, end_us), begin_us, end_us)))
        return tuple(name for name, us in ran.most_common() if us > 0)

    def group(self, flag: Flag) -> Group:
        """What the control groups of its node were short of while a call lost time."""
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        throttled_us = memory_share = 0.0
        for some in self._nodes[flag.node].states:
            rows = overlapping(some, begin_us, end_us)
            overlap_us = overlaps_us(rows, begin_us, end_us)
            throttled_us += float(np.minimum(rows["throttled_us"], overlap_us).sum())
            limited = rows[rows["group_limit_bytes"] > 0]
            shares = limited["group_used_bytes"] / limited["group_limit_bytes"]
            memory_share = max([memory_share, *shares.tolist()])
        return Group(throttled_us, memory_share)

    def _tid(self, flag: Flag) -> int | None:
        return self._threads.get((flag.node, flag.program, flag.rank, flag.thread))


def _ran_us(rows: Rows, begin_us: int, end_us: int) -> list[float]:
    """What each row ran in an interval: a part like that of its time."""
    inside_us = overlaps_us(rows, begin_us, end_us)
    ran_us = np.minimum(rows["ran_us"], rows["length_us"]) * (inside_us / np.maximum(rows["length_us"], 1))
    return [float(us) for us in ran_us.tolist()]


def called(name: ThreadName) -> str:
    """A thread as sentences name it."""
    return f"rank {name.rank}" if name.thread == 0 else f"{name.name} of rank {name.rank}"
