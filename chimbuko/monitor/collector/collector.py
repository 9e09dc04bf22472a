"""Samples the processes of a node's ranks, keeps them for a while, and gives away what is wanted of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from chimbuko.monitor.collector.batchmaker import LOOKS, BatchMaker, Costs, CurrentSum, ThreadNames, parts_of
from chimbuko.monitor.collector.fastlooks import FastLooks
from chimbuko.monitor.collector.fastring import (
    KEYS,
    TICK_US,
    KeptRows,
    Passed,
    ThreadLook,
    passed_by,
    passed_row,
)
from chimbuko.monitor.collector.lossfinder import LossesOfThread
from chimbuko.monitor.collector.spanrows import core_rows, first_rows, gpu_rows, node_rows, thread_rows
from chimbuko.monitor.collector.threadreading import Reading
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs.gpus import Gpus
from chimbuko.monitor.procfs.task import parse_stat
from chimbuko.monitor.procfs.topology import read_sysfs
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.memorytrend import MemoryGrowth
from chimbuko.monitor.sampling.nodebatch import SAMPLED_US, Awaited, NodeBatch, RankLoss
from chimbuko.monitor.sampling.rows import THREAD, Rows
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.span import TICKS_PER_S, Standstill
from chimbuko.monitor.sampling.standstill import Standstills

PERIOD_S = 1.0
RUNNING_SHARE = 0.05
"""A thread that ran for so much of the last period is looked at fast; main threads always are."""
MOST_FAST = 64
EXPECTED_US, SOON_US = 10_000_000, 3_000_000
"""Time for which a process is looked at that may become a rank, and the rest of it once another one is: most
of the others have started the ranks, but on a busy node ranks begin seconds after each other."""
AROUND_LOSS_US = 1_000_000
"""Rows from so long before a loss and behind it leave the node."""


class Collector:
    """The samples of one node. Whoever has it calls ``fast`` and ``period`` when they are due.

    It reads, and hands what it has read to values that decide: ``LookPace`` when to look and at whom,
    ``CurrentSum`` when a sum is due, ``LossesOfThread`` what a rank lost, ``BatchMaker`` what may leave the
    node.

    Parameters
    ----------
    node
        Its name.
    has_node
        Whether it reports cores, memory and other processes, too: of several on a node one does.
    gpus
        Those of the node, which it closes; None for an agent that does not report the node.
    """

    def __init__(self, node: str, has_node: bool = True, gpus: Gpus | None = None) -> None:
        self._has_node = has_node
        self._watched: dict[int, Watched] = {}
        self._expected: dict[int, int] = {}
        """Processes that may become ranks, and until when they are looked at, in µs."""
        self._strangers: set[int] = set()
        """Processes of which that did not come true."""
        self._ranks: set[int] = set()
        """All processes that were ever watched: until they are, they are among the others of the node."""
        self._names = ThreadNames()
        self._rows = KeptRows()
        self._batches = BatchMaker(node, time.time_ns() // 1000, self._names)
        self._sampler = Sampler(gpus=gpus, has_io=False)
        self._looks = FastLooks(self._rows, self._batches.costs, has_node)
        self._losses: dict[int, tuple[Watched, LossesOfThread]] = {}
        """Losses of the ranks' main threads."""
        self._sum = CurrentSum()
        self._growth = MemoryGrowth()
        self._last: Sample | None = None
        self._early: set[int] = set()
        """Processes that were there before there was a collector."""
        self._since_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S)
        """Time since which processes count from their beginning, as those of ``attach`` do not."""
        self._beginnings: dict[int, int] = {}
        """Processes of which that is to be counted, each with the time at which its trace begins, in µs."""
        self._standstills = Standstills()
        self._stand_still: dict[int, Standstill] = {}
        """Processes that stand still, or did until they ended."""

    @property
    def costs(self) -> Costs:
        """Costs of all looks so far."""
        return self._batches.costs

    def watch(self, one: Watched, began_us: int = 0) -> None:
        """Sample the threads of a rank's process from now on; its trace began at a time."""
        self._watched[one.pid] = one
        self._expected.pop(one.pid, None)
        self._ranks.add(one.pid)
        self._strangers.discard(one.pid)
        soon_us = time.time_ns() // 1000 + SOON_US
        self._expected = {pid: min(until_us, soon_us) for pid, until_us in self._expected.items()}
        self._beginnings[one.pid] = began_us
        self._names.number(one.pid, one.pid, 0)
        self._looks.add(one.pid)
        self._losses.setdefault(one.pid, (one, LossesOfThread()))

    def remember(self, readings: Sequence[Reading]) -> None:
        """Take in what was read of processes that may become ranks before there was a collector."""
        self._looks.remember(readings)
        self._early = {one.pid for one in readings}
        self._strangers |= self._early
        first = {one.tid: one for one in reversed(readings)}
        stats = [parse_stat(one.stat) for one in first.values()]
        self._since_ticks = min([self._since_ticks, *(one.start_ticks for one in stats if one is not None)])

    def was_there(self, pid: int) -> bool:
        """Whether there is such a process, or was one before there was a collector."""
        return os.path.isdir(f"/proc/{pid}") or pid in self._early

    @property
    def has_ranks(self) -> bool:
        """Whether any process has ever been watched."""
        return bool(self._losses)

    def expect(self, pid: int, now_us: int) -> None:
        """Look at the main thread of a process that may become a rank, so that its samples begin with it."""
        self._expected[pid] = now_us + EXPECTED_US
        self._looks.add(pid)

    def name_thread(self, pid: int, tid: int, thread: int) -> None:
        """Note the number of a thread in the trace."""
        self._names.number(pid, tid, thread)

    @property
    def fast_s(self) -> float:
        """Time until the next fast sample, in seconds."""
        return self._looks.next_s

    def fast(self, now_us: int) -> None:
        """Look at the threads that run."""
        self._looks.look(now_us, self._watched.keys())

    def looks(self) -> Iterator[ThreadLook]:
        """Yield what was seen of the ranks' threads that are in their traces, in the last fast sample."""
        for look in self._looks.latest():
            thread = self._names.number_of(look.pid, look.thread) if look.pid in self._watched else None
            if thread is not None:
                yield look._replace(thread=thread)

    def period(self) -> None:
        """Sample all threads; called once a period."""
        sample = self._sampler.sample(self._watched)
        last, self._last = self._last, sample
        self.costs.period_us += sample.cost_us
        for pid in self._watched.keys() - sample.processes.keys():
            # A sample may miss a process that is busy ending its threads, or has no file to spare.
            if not os.path.isdir(f"/proc/{pid}"):
                del self._watched[pid]
        self._names.note(self._watched, sample.threads)
        self._choose_fast(last, sample)
        self._sum.take(sample)
        self._growth.step(sample)
        if last is None:
            return
        began_ns = time.thread_time_ns()
        span = difference(last, sample)
        self._stand_still = self._standstills.step(span, sample.wall_us)
        threads = thread_rows(last, sample, span)
        self._rows.put("threads", self._with_beginnings(threads, last, sample))
        if self._has_node:
            self._rows.put("cores", core_rows(last, sample, span, threads))
            self._rows.put("states", node_rows(last, sample, span))
            if sample.gpus:
                self._rows.put("gpus", gpu_rows(last, sample))
        self.costs.period_us += (time.thread_time_ns() - began_ns) // 1000

    def _with_beginnings(self, threads: Rows, last: Sample, sample: Sample) -> Rows:
        """Return the rows of a period with those of ranks that were not known before, from the beginnings of
        their traces; what ranks did that are over counts, too.
        """
        if not self._beginnings:
            return threads
        boot_us = time.time_ns() // 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        gone: list[tuple[object, ...]] = []
        bases: dict[int, Passed] = {}
        for tid, readings in self._looks.readings(self._beginnings).items():
            began_us = self._beginnings[readings[0].pid]
            passed = [(one, stat) for one in readings if (stat := parse_stat(one.stat)) is not None]
            if before := [both for both in passed if both[0].time_us <= began_us]:
                bases[tid] = passed_by(*before[-1])
            if passed and readings[0].pid not in sample.processes:
                one, stat = passed[-1]
                base = bases.get(tid, Passed(boot_us + stat.start_ticks * TICK_US))
                self._names.note_gone(self._losses[one.pid][0], tid, stat.name)
                ids = one.pid, tid, stat.processor, one.call, stat.state
                gone.append(passed_row(base, passed_by(one, stat), *ids))
        self._rows.add("threads", np.array(gone, THREAD))
        self._beginnings.clear()
        firsts = first_rows(last, sample, self._since_ticks, bases)
        begun = set(firsts["tid"].tolist())
        return np.concatenate([threads[[tid not in begun for tid in threads["tid"].tolist()]], firsts])

    def around(self, intervals: Iterable[tuple[int, int]]) -> NodeBatch | None:
        """Return samples that overlap intervals and were not given away before; None without any."""
        parts: dict[str, list[Rows]] = {kind: [] for kind in (*KEYS, LOOKS)}
        bounds: list[int] = []
        awaited: set[Awaited] = set()
        for begin_us, end_us in intervals:
            bounds += [begin_us, end_us]
            for kind, found in self._rows.take(begin_us, end_us).items():
                parts[kind].append(found)
            parts[LOOKS].append(self._looks.take(begin_us, end_us))
            awaited.update(self._looks.awaited(begin_us, end_us))
        if not bounds:
            return None
        rows = {kind: np.concatenate(found) for kind, found in parts.items()}
        # What slept all the time explains nothing, and most threads of a node do.
        for kind in ("threads", LOOKS):
            of_threads = rows[kind]
            has_run = (of_threads["ran_us"] > 0) | (of_threads["waited_us"] > 0)
            is_main = of_threads["pid"] == of_threads["tid"]
            rows[kind] = _without(of_threads[has_run | is_main], self._strangers)
        # They may have been among the others before they were known as ranks.
        rows["others"] = _without(rows["others"], self._ranks)
        count = sum(map(len, rows.values()))
        if not count or not self._batches.admits(count):
            return None
        batch = self._batches.make(rows, False, min(bounds), max(bounds))
        return msgspec.structs.replace(batch, awaited=sorted(awaited, key=lambda one: one.begin_us))

    def losses(self) -> NodeBatch | None:
        """Losses of ranks since the last call, kept from running, with samples from around them that were not
        given away before; None if ranks lost nothing.
        """
        # Not look by look: each would cost more, and so they would be further apart.
        for tid, stretch in self._looks.stretches():
            if tid in self._losses:
                self._losses[tid][1].add(stretch)
        found = [
            RankLoss(of.program, of.rank, is_stopped, *loss)
            for of, losses in self._losses.values()
            for is_stopped, loss in losses.news()
        ]
        self._losses = {pid: one for pid, one in self._losses.items() if pid in self._watched}
        if not found:
            return None
        intervals = [
            (one.begin_us - AROUND_LOSS_US, min(one.end_us, one.begin_us + SAMPLED_US) + AROUND_LOSS_US)
            for one in found
        ]
        begin_us, end_us = min(one.begin_us for one in found), max(one.end_us for one in found)
        batch = self.around(intervals) or self._batches.make({}, False, begin_us, end_us)
        return msgspec.structs.replace(
            batch,
            losses=found,
            begin_us=min(batch.begin_us, begin_us),
            end_us=max(batch.end_us, end_us),
        )

    def due_sum(self, now_us: int, is_last: bool = False) -> NodeBatch | None:
        """Return the sum since the last one, if it is time for it."""
        if not self._sum.is_due(now_us) and not is_last:
            return None
        begin_us = self._sum.begin_next(now_us)
        rows = self._rows.take_sums()
        if not rows:
            return None
        if "others" in rows:
            rows["others"] = _without(rows["others"], self._ranks)
        batch = self._batches.make(rows, True, begin_us, now_us)
        if self._has_node:
            # Who grows may be loading its data: that is known at the end.
            growing = self._growth.found() if is_last else ()
            batch = msgspec.structs.replace(
                batch, findings=self._sum.findings(rows, self._stand_still, growing)
            )
            if self._sum.is_first:
                # Not by lstopo, which would be a process for an agent to start.
                batch = msgspec.structs.replace(batch, parts=parts_of(read_sysfs()))
        self._sum.note_made()
        self._names.keep(self._last.threads if self._last is not None else {})
        return batch

    def close(self) -> None:
        """Close all files."""
        self._sampler.close()
        self._looks.close()

    def _choose_fast(self, last: Sample | None, sample: Sample) -> None:
        """Choose the threads that are sampled fast: the main ones, and those that ran."""
        now_us = time.time_ns() // 1000
        over = {pid for pid, until_us in self._expected.items() if until_us <= now_us}
        self._strangers |= over
        for pid in over:
            del self._expected[pid]
        chosen = {pid: pid for pid in (*self._watched, *self._expected)}
        is_running = bool(self._expected)
        if last is not None:
            least_ns = RUNNING_SHARE * 1000 * (sample.time_us - last.time_us)
            for tid, one in sample.threads.items():
                before = last.threads.get(tid)
                ran_ns = (one.ran_ns or 0) - ((before.ran_ns or 0) if before else 0)
                if ran_ns >= least_ns:
                    is_running = True
                    if len(chosen) < MOST_FAST:
                        chosen[tid] = one.pid
        self._looks.choose(chosen, is_running)


def _without(rows: Rows, pids: set[int]) -> Rows:
    """Return the rows of all other processes."""
    # Of none, or for none, numpy makes a search that loads numpy.ma: 3 MB of the agent.
    return rows[~np.isin(rows["pid"], list(pids))] if len(rows) and pids else rows
