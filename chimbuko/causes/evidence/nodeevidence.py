"""Samples of nodes by thread, core, GPU and time: what nodes did while calls lost time. No I/O, no clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.evidence.threadactivity import SlowTimes, ThreadActivity, Usual, activity_in
from chimbuko.causes.part import ANALYSIS
from chimbuko.monitor.procfs.numbers import parse_cpulist
from chimbuko.monitor.sampling.nodebatch import Awaited, NodeBatch, ThreadName
from chimbuko.monitor.sampling.ownrun import is_of_analysis, spoken
from chimbuko.monitor.sampling.rows import (
    ANYBODY,
    GPU,
    THREAD,
    Rows,
    ends_us,
    joined,
    overlapping,
    overlaps_us,
    summed,
)

COVERED_BY_GPU_SAMPLES = 0.5
"""Share of the lost time that samples of a GPU must cover."""


class GpuShares(msgspec.Struct, frozen=True):
    """Shares of some time in which a GPU was busy, and throttled."""

    busy: float = 0.0
    throttled: float = 0.0


class GpuActivity(msgspec.Struct, frozen=True):
    """Activity of one GPU while a call lost time."""

    number: int
    now: GpuShares
    """Shares of the time that was lost."""
    usual: GpuShares
    foreign: int
    """Maximum number of processes that used it and are none of the program's."""


def gpu_activities(
    rows: Rows, usual: Rows, pid: int | None, begin_us: int, end_us: int
) -> Iterator[GpuActivity]:
    """Yield the activity of GPUs that a process may have used in an interval, as far as there are samples.

    Parameters
    ----------
    rows
        GPU rows, in no order; those of one GPU do not overlap.
    usual
        GPU rows of a longer time, which may contain the others.
    pid
        Process id; None if it is not known.
    """
    inside_us = overlaps_us(rows, begin_us, end_us)
    is_its = (inside_us > 0) & np.isin(rows["pid"], (ANYBODY, -2 if pid is None else pid))
    for number in np.unique(rows["gpu"][is_its]).tolist():
        of_gpu = is_its & (rows["gpu"] == number)
        if inside_us[of_gpu].sum() < COVERED_BY_GPU_SAMPLES * (end_us - begin_us):
            continue
        yield GpuActivity(
            number,
            _gpu_shares(rows[of_gpu], inside_us[of_gpu] / np.maximum(rows["length_us"][of_gpu], 1)),
            _gpu_shares(of_usual := usual[usual["gpu"] == number], np.ones(len(of_usual))),
            int(rows["foreign"][of_gpu].max()),
        )


def _gpu_shares(rows: Rows, parts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> GpuShares:
    """Return the shares of these parts of rows."""
    length_us = float((rows["length_us"] * parts).sum())
    if length_us <= 0:
        return GpuShares()
    return GpuShares(*(float((rows[name] * parts).sum()) / length_us for name in ("busy_us", "throttled_us")))


COVERED = 0.6
"""Share of the lost time that looks at the thread must cover; otherwise rows of periods are taken."""
AROUND_US = 1_000_000
"""Time before and after a call whose activity of the thread is taken for usual."""


class Rival(msgspec.Struct, frozen=True):
    """Other thread or process that ran on a core."""

    name: str
    """Name in sentences."""
    is_foreign: bool
    ran_us: float
    """Time that the process ran on this core while the call lost time."""
    core: int


class Group(msgspec.Struct, frozen=True):
    """Shortages of the control groups of a node's ranks in an interval."""

    throttled_us: float = 0.0
    """Maximum time for which one of them was kept from its cores."""
    memory_share: float = 0.0
    """Share of its memory limit that the fullest of them used; 0 without a limit."""


class _Block(msgspec.Struct):
    """Rows that came together, and the interval in which they lie."""

    rows: Rows
    begin_us: int
    end_us: int
    tids: npt.NDArray[np.int32] | None = None
    """Thread ids of THREAD rows, once these are in order of them."""

    def of_thread(self, tid: int) -> Rows:
        """Return the THREAD rows of one thread."""
        if self.tids is None:
            self.rows = self.rows[np.argsort(self.rows["tid"], kind="stable")]
            self.tids = self.rows["tid"].copy()
        first, last = np.searchsorted(self.tids, (tid, tid + 1))
        return self.rows[first:last]


class _RowsByTime:
    """Rows in the blocks in which they came. They are looked at only where they are asked for, since most of
    what comes explains nothing.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(self, rows: Rows) -> None:
        if len(rows):
            self._blocks.append(_Block(rows, int(rows["begin_us"].min()), int(ends_us(rows).max())))

    def blocks(self, begin_us: int, end_us: int) -> list[_Block]:
        """Return the blocks that may overlap an interval."""
        return [one for one in self._blocks if one.begin_us < end_us and one.end_us > begin_us]

    def during(self, begin_us: int, end_us: int) -> list[Rows]:
        """Return rows that overlap an interval."""
        return [overlapping(one.rows, begin_us, end_us) for one in self.blocks(begin_us, end_us)]

    def forget_before(self, time_us: int) -> None:
        blocks, self._blocks = self._blocks, []
        for one in blocks:
            if one.begin_us >= time_us:
                self._blocks.append(one)
            elif one.end_us > time_us:
                self.add(one.rows[one.rows["begin_us"] >= time_us])


class _RowsOfThreads(_RowsByTime):
    """THREAD rows in the blocks in which they came, and in order of time for each thread that is asked for:
    in a flood hundreds of calls ask for the same second of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_order: dict[int, tuple[Rows, int]] = {}
        """Rows of each thread, and how long the longest of them is."""

    def add(self, rows: Rows) -> None:
        super().add(rows)
        self._in_order.clear()

    def forget_before(self, time_us: int) -> None:
        super().forget_before(time_us)
        self._in_order.clear()

    def of_thread(self, tid: int, begin_us: int, end_us: int) -> Rows:
        """Return rows of one thread that overlap an interval, in order of time."""
        if tid not in self._in_order:
            rows = joined([one.of_thread(tid) for one in self._blocks], THREAD)
            rows = rows[np.argsort(rows["begin_us"], kind="stable")]
            self._in_order[tid] = rows, int(rows["length_us"].max(initial=0))
        rows, longest_us = self._in_order[tid]
        first, last = np.searchsorted(rows["begin_us"], (begin_us - longest_us, end_us))
        return overlapping(rows[first:last], begin_us, end_us)

    def on_cores(self, cores: list[int], begin_us: int, end_us: int) -> set[int]:
        """Return the threads that were found on one of these cores."""
        found = self.during(begin_us, end_us)
        return {tid for rows in found for tid in rows["tid"][np.isin(rows["core"], cores)].tolist()}


_NO_ROWS = np.zeros(0, THREAD)


class _UsualOfThreads:
    """Totals of the activity of threads of a node over all sums."""

    def __init__(self) -> None:
        self._tids = _NO_ROWS["tid"]
        self._totals = np.zeros((0, 3))

    def add(self, rows: Rows) -> None:
        more = np.stack([rows[name].astype(float) for name in ("ran_us", "waited_us", "slices")], axis=1)
        totals = np.concatenate([self._totals, more])
        self._tids, places = np.unique(np.concatenate([self._tids, rows["tid"]]), return_inverse=True)
        self._totals = np.zeros((len(self._tids), 3))
        np.add.at(self._totals, places, totals)

    def of(self, tid: int) -> Usual | None:
        place = int(np.searchsorted(self._tids, tid))
        if place == len(self._tids) or self._tids[place] != tid:
            return None
        return Usual(*self._totals[place].tolist())


class _NodeRows:
    """Rows of one node."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        """Ends of batches by sequence number."""
        self.forgotten_us = 0
        self.usual = _UsualOfThreads()
        self.looks = _RowsOfThreads()
        self.periods = _RowsOfThreads()
        self.others = _RowsByTime()
        self.states = _RowsByTime()
        self.gpus = _RowsByTime()
        self.usual_gpus = np.zeros(0, GPU)
        """One row for each GPU, over all sums."""
        self.names: dict[int, ThreadName] = {}
        self.awaited: set[Awaited] = set()

    def add(self, batch: NodeBatch) -> None:
        self.names |= {one.tid: one for one in batch.names}
        self.looks.add(batch.look_rows())
        self.periods.add(batch.thread_rows())
        self.others.add(batch.other_rows())
        self.states.add(batch.state_rows())
        self.gpus.add(batch.gpu_rows())
        self.awaited.update(batch.awaited)

    def best(self, tid: int, begin_us: int, end_us: int) -> Rows:
        """Return looks at a thread if they cover most of an interval, otherwise rows of periods."""
        rows = self.looks.of_thread(tid, begin_us, end_us)
        if overlaps_us(rows, begin_us, end_us).sum() >= COVERED * (end_us - begin_us):
            return rows
        return self.periods.of_thread(tid, begin_us, end_us)

    def forget_before(self, time_us: int) -> None:
        self.forgotten_us = time_us
        self.known = {sequence: end_us for sequence, end_us in self.known.items() if end_us >= time_us}
        for rows in (self.looks, self.periods, self.others, self.states, self.gpus):
            rows.forget_before(time_us)
        self.awaited = {one for one in self.awaited if one.end_us >= time_us}


class NodeEvidence:
    """Samples of all nodes, as far as they may explain calls."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeRows] = defaultdict(_NodeRows)
        self._threads: dict[tuple[str, int, int, int], int] = {}
        """Thread ids by node, program, rank and thread of the trace."""

    def add(self, batch: NodeBatch) -> bool:
        """Take samples of a node; return false where they explain no calls, are known already, or cannot be
        read.
        """
        node = self._nodes[batch.node]
        if not batch.is_known or batch.sequence in node.known or batch.end_us < node.forgotten_us:
            return False
        node.known[batch.sequence] = batch.end_us
        if batch.is_sum:
            node.usual.add(batch.thread_rows())
            node.usual_gpus = summed(np.concatenate([node.usual_gpus, batch.gpu_rows()]), ["gpu"])
            return False
        node.add(batch)
        for one in batch.names:
            for thread in (one.thread, *one.stacks) if one.thread >= 0 else ():
                self._threads[batch.node, one.program, one.rank, thread] = one.tid
        return True

    @property
    def has_samples(self) -> bool:
        """Return whether there ever were samples from around flagged calls."""
        return bool(self._threads)

    def forget_before(self, time_us: int) -> None:
        """Let go of samples from before a time, but not of what is usual."""
        for rows in self._nodes.values():
            rows.forget_before(time_us)

    def activity(self, flag: Flag, disturbed: SlowTimes | None = None) -> ThreadActivity | None:
        """Return the activity of a call's thread while the call lost time; None if nothing is known.

        Parameters
        ----------
        disturbed
            Times in which calls of the thread were slow: its activity there is not usual.
        """
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        tid = self._tid(flag)
        if tid is None or end_us <= begin_us:
            return None
        node = self._nodes[flag.node]
        rows = node.looks.of_thread(tid, begin_us - AROUND_US, end_us + AROUND_US)
        inside_us = overlaps_us(rows, begin_us, end_us)
        if inside_us.sum() < COVERED * (end_us - begin_us):
            own = node.periods.of_thread(tid, begin_us, end_us)
            if not len(own):
                return None
            rows = joined([own, rows[inside_us == 0]], THREAD)
        return activity_in(rows, begin_us, end_us, disturbed, node.usual.of(tid))

    def waited_near_us(self, flag: Flag) -> float:
        """Return how long the thread waited for a core in all looks in which the call lost some time."""
        begin_us, end_us, tid = flag.lost_from_us, flag.lost_to_us, self._tid(flag)
        if tid is None:
            return 0.0
        return float(self._nodes[flag.node].looks.of_thread(tid, begin_us, end_us)["waited_us"].sum())

    def rivals(self, flag: Flag, cores: Iterable[int]) -> tuple[Rival, ...]:
        """Return who else ran on cores while a call lost time, longest first."""
        node, own = self._nodes[flag.node], self._tid(flag)
        begin_us, end_us, wanted = flag.lost_from_us, flag.lost_to_us, list(cores)
        ran: defaultdict[tuple[str, bool, int], float] = defaultdict(float)
        found_there = node.looks.on_cores(wanted, begin_us, end_us)
        found_there |= node.periods.on_cores(wanted, begin_us, end_us)
        for tid, name in node.names.items():
            if tid == own or tid not in found_there:
                continue
            rows = node.best(tid, begin_us, end_us)
            # One that was found elsewhere before ran there for some of the time, nobody knows how long.
            rows = rows[np.isin(rows["core"], wanted) & (rows["migrations"] == 0)]
            for core, us in zip(rows["core"].tolist(), _ran_us(rows, begin_us, end_us), strict=True):
                ran[called(name), False, core] += us
        others = [rows[np.isin(rows["core"], wanted)] for rows in node.others.during(begin_us, end_us)]
        names = _last_names([row for rows in others for row in rows])
        for rows in others:
            for row, us in zip(rows, _ran_us(rows, begin_us, end_us), strict=True):
                ran[names[int(row["pid"]), _called(row)], True, int(row["core"])] += us
        found = (Rival(name, is_foreign, us, core) for (name, is_foreign, core), us in ran.items() if us > 0)
        return tuple(sorted(found, key=lambda rival: (-rival.ran_us, rival.name)))

    def allowed(self, flag: Flag) -> frozenset[int]:
        """Return the cores on which the thread of a call may run; none if they are not known."""
        name = self._nodes[flag.node].names.get(self._tid(flag) or 0)
        return frozenset(parse_cpulist(name.cpus) if name is not None else ())

    def threads(self, node: str, begin_us: int, end_us: int) -> Iterator[tuple[ThreadName, Rows]]:
        """Yield the threads of a node, each with the best THREAD rows of an interval, in order of time."""
        of_node = self._nodes[node]
        for tid, name in of_node.names.items():
            rows = of_node.best(tid, begin_us, end_us)
            if len(rows):
                yield name, rows[np.argsort(rows["begin_us"])]

    def sharing(self, program: int, ranks: Collection[int]) -> tuple[int, int]:
        """Return how many ranks may run on how many cores, if some of these ranks share cores with others;
        else 0, 0.
        """
        for node in self._nodes.values():
            masks = {
                (one.program, one.rank): frozenset(parse_cpulist(one.cpus))
                for one in node.names.values()
                if one.thread == 0
            }
            for mask in {mask for (of, rank), mask in masks.items() if of == program and rank in ranks}:
                there = [other for other in masks.values() if other & mask]
                cores = len(frozenset().union(*there))
                if len(there) > cores:
                    return len(there), cores
        return 0, 0

    def siblings(self, flag: Flag, least_us: float) -> tuple[str, ...]:
        """Return other threads of a call's process that ran so long while it lost time, longest first."""
        node, own = self._nodes[flag.node], self._tid(flag)
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        pid = node.names[own].pid if own in node.names else None
        ran: Counter[str] = Counter()
        for tid, name in node.names.items():
            if name.pid == pid and tid != own:
                ran[name.name] += round(sum(_ran_us(node.best(tid, begin_us, end_us), begin_us, end_us)))
        return tuple(name for name, us in ran.most_common() if us >= least_us)

    def awaited(self, flag: Flag) -> str:
        """Return the file or child that a call's thread slept for longest meanwhile; empty if unknown."""
        slept_us: Counter[str] = Counter()
        for one in self._nodes[flag.node].awaited:
            us = min(one.end_us, flag.lost_to_us) - max(one.begin_us, flag.lost_from_us)
            if one.tid == self._tid(flag) and us > 0:
                slept_us[one.name] += us
        return max(slept_us, key=lambda name: (slept_us[name], name), default="")

    def moved_bytes(self, flag: Flag, path: str) -> int:
        """Return how much of a file its thread went through while a call lost time, as far as looks saw it; 0
        if they saw nothing of it.
        """
        own = self._tid(flag)
        seen = [
            (one.first_byte, one.end_byte)
            for one in self._nodes[flag.node].awaited
            if one.tid == own
            and one.name == path
            and one.begin_us < flag.lost_to_us
            and one.end_us > flag.lost_from_us
        ]
        return max((end for _, end in seen), default=0) - min((begin for begin, _ in seen), default=0)

    def group(self, flag: Flag) -> Group:
        """Return the shortages of the control groups of its node while a call lost time."""
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        throttled_us = memory_share = 0.0
        for rows in self._nodes[flag.node].states.during(begin_us, end_us):
            overlap_us = overlaps_us(rows, begin_us, end_us)
            throttled_us += float(np.minimum(rows["throttled_us"], overlap_us).sum())
            limited = rows[rows["group_limit_bytes"] > 0]
            shares = limited["group_used_bytes"] / limited["group_limit_bytes"]
            memory_share = max([memory_share, *shares.tolist()])
        return Group(throttled_us, memory_share)

    def gpus(self, flag: Flag) -> list[GpuActivity]:
        """Return the activity of the GPUs that its process may use while a call lost time."""
        node, own = self._nodes[flag.node], self._tid(flag)
        begin_us, end_us = flag.lost_from_us, flag.lost_to_us
        parts = node.gpus.during(begin_us - AROUND_US, end_us + AROUND_US)
        if not parts or end_us <= begin_us:
            return []
        rows = np.concatenate(parts)
        beside = rows[overlaps_us(rows, begin_us, end_us) == 0]
        usual = np.concatenate([node.usual_gpus, beside])
        pid = node.names[own].pid if own in node.names else None
        return list(gpu_activities(rows, usual, pid, begin_us, end_us))

    def _tid(self, flag: Flag) -> int | None:
        return self._threads.get((flag.node, flag.program, flag.rank, flag.thread))


def _ran_us(rows: Rows, begin_us: int, end_us: int) -> list[float]:
    """Return how long each row ran in an interval, in proportion to its time."""
    inside_us = overlaps_us(rows, begin_us, end_us)
    ran_us = np.minimum(rows["ran_us"], rows["length_us"]) * (inside_us / np.maximum(rows["length_us"], 1))
    return [float(us) for us in ran_us.tolist()]


def _last_names(rows: Iterable[np.void]) -> dict[tuple[int, str], str]:
    """Return how processes are called that have some name in rows: by what they became last, as a script
    becomes a program that it starts in its place.
    """
    times_us: dict[tuple[int, str], tuple[int, int]] = {}
    for row in rows:
        key = int(row["pid"]), _called(row)
        begin_us = int(row["begin_us"])
        first_us, last_us = times_us.get(key, (begin_us, begin_us))
        times_us[key] = min(first_us, begin_us), max(last_us, begin_us + int(row["length_us"]))
    return {
        (pid, name): max(
            (began_us, other)
            for (of, other), (began_us, _) in times_us.items()
            if of == pid and (other == name or began_us >= ended_us)
        )[1]
        for (pid, name), (_, ended_us) in times_us.items()
    }


def _called(other: np.void) -> str:
    """Return the name in sentences of a process from outside the program."""
    name, user = (other[what].decode(errors="replace") for what in ("name", "user"))
    return ANALYSIS if is_of_analysis(name) else f"{spoken(name)} ({user}, process {other['pid']})"


def called(name: ThreadName) -> str:
    """Return the name of a thread in sentences."""
    return f"rank {name.rank}" if name.thread == 0 else f"{name.name} of rank {name.rank}"
