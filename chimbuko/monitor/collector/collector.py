"""Samples the processes of a node's ranks, keeps them for a while, and gives away what is wanted of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from chimbuko.monitor.collector.description import found_between, parts_of
from chimbuko.monitor.collector.fastring import FastRing, SliceRing
from chimbuko.monitor.collector.lossfinder import LossesOfThread
from chimbuko.monitor.collector.spanrows import core_rows, gpu_rows, node_rows, thread_rows
from chimbuko.monitor.collector.unwatched import Others
from chimbuko.monitor.procfs.gpus import Gpus
from chimbuko.monitor.procfs.topology import read_sysfs
from chimbuko.monitor.samples.intervals import summed
from chimbuko.monitor.samples.nodebatch import SAMPLED_US, NodeBatch, NodeFinding, RankLoss, Rows, ThreadName
from chimbuko.monitor.samples.rows import CORE, GPU, NODE, OTHER, THREAD
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.procreader import ProcReader
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.sampler import Sampler

PERIOD_S = 1.0
FAST_S = 0.02
FAST_SHARE, AGAIN_SHARE = 0.0015, 0.0005
"""Shares of a core that fast samples of ranks, and of those who took their cores last, may take. Where a look
costs more, looks are further apart. Together they are 2 ms in a second.
"""
SLOWEST_S = 0.25
IDLE_S = 0.25
"""While no rank runs."""
RUNNING_SHARE = 0.05
"""A thread that ran for so much of the last period is looked at fast; main threads always are."""
MOST_FAST = 64
OTHERS_S, OTHERS_SOONEST_S, OTHERS_SHARE = 10.0, 0.1, 0.005
"""Other processes are looked for so often, and where a rank waits for its core; as far as that keeps within a
share of a core."""
SPARED_US = 1_000_000
"""Looks at others that were not taken in so long a time may follow each other at once: a short burst is over
before the next one would be due."""
FIRST_SUM_S = 10.0
SUMS_OF_A_LENGTH = 120
"""After so many sums they are twice as long: their number grows with the logarithm of a run's length."""
RING_ROWS = 65_536
MOST_UNSUMMED = 64
"""Periods, or looks, whose rows are kept until they are summed: to sum them takes as long as some periods."""
MOST_KEPT_ROWS = 500_000
"""Rows around flagged calls, and losses, that leave the node in one run: 30 MB before they are packed."""
AROUND_LOSS_US = 1_000_000
"""Rows from so long before a loss and behind it leave the node."""
LOOKS = "looks"
KEYS: dict[str, list[str]] = {
    "threads": ["pid", "tid"],
    "cores": ["cpu"],
    "others": ["pid", "core"],
    "states": [],
    "gpus": ["gpu"],
}
"""Columns by which rows are summed."""


@dataclass(frozen=True)
class Watched:
    """A rank's process."""

    pid: int
    program: int
    rank: int


class Collector:
    """The samples of one node. Whoever has it calls ``fast`` and ``period`` when they are due.

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
        self._node = node
        self._has_node = has_node
        self._watched: dict[int, Watched] = {}
        self._threads: dict[tuple[int, int], int] = {}
        """Name of each thread in the trace, by process and thread."""
        self._sampler = Sampler(gpus=gpus, has_io=False)
        self._files = ProcReader()
        self._fast = FastRing(self._files)
        self._fast_threads: dict[int, int] = {}
        self._losses: dict[int, tuple[Watched, LossesOfThread]] = {}
        """Losses of the ranks' main threads."""
        self._others = Others(self._files)
        self._rings = {
            "threads": SliceRing(THREAD, RING_ROWS),
            "cores": SliceRing(CORE, 8192),
            "others": SliceRing(OTHER, 4096),
            "states": SliceRing(NODE, 512),
            "gpus": SliceRing(GPU, 4096),
        }
        self._unsummed: dict[str, list[Rows]] = {name: [] for name in self._rings}
        self._sum_begin_us = 0
        self._sums = 0
        self._kept_rows = 0
        self._left_out = 0
        self._sequence = time.time_ns() // 1000
        self._last: Sample | None = None
        self._first_of_sum: Sample | None = None
        self._last_of_sum: Sample | None = None
        """The first and the last sample since the last sum that have threads in them."""
        self._periods_of_sum = 0
        """Between them."""
        self._names: dict[int, tuple[Watched, str, str]] = {}
        """Names of all threads that sums to come may hold, by thread; a thread that has ended keeps its name.
        """
        self._is_running = False
        self._others_due_us = self._others_soonest_us = self._again_us = 0
        self._wants_others = self._has_waited = False
        self._fast_s = FAST_S
        self.cost_us = self.fast_cost_us = 0
        """CPU time of samples since the last batch."""

    def watch(self, one: Watched) -> None:
        """A rank's process, of which threads are sampled from now on."""
        self._watched[one.pid] = one
        self._threads[one.pid, one.pid] = 0
        self._fast_threads[one.pid] = one.pid
        self._losses.setdefault(one.pid, (one, LossesOfThread()))

    def name_thread(self, pid: int, tid: int, thread: int) -> None:
        """A thread as the trace numbers it."""
        self._threads[pid, tid] = thread

    @property
    def fast_s(self) -> float:
        """Time until the next fast sample, in seconds."""
        return self._fast_s if self._is_running else IDLE_S

    def fast(self, now_us: int) -> None:
        """Look at the threads that run."""
        if not self._fast_threads:
            return
        began_ns = time.thread_time_ns()
        had_waited = self._has_waited
        has_waited = self._has_waited = self._fast.read(self._fast_threads)
        cost_us = (time.thread_time_ns() - began_ns) // 1000
        self.fast_cost_us += cost_us
        wanted_s = min(max(cost_us / 1e6 / FAST_SHARE, FAST_S), SLOWEST_S)
        self._fast_s += 0.1 * (wanted_s - self._fast_s)
        self._wants_others = self._wants_others or has_waited
        if self._has_node and now_us >= (
            self._others_soonest_us if self._wants_others else self._others_due_us
        ):
            self._look_for_others(now_us)
            # Once more, when who takes the core has done so for a while.
            self._wants_others = has_waited
        elif self._has_node and (has_waited or had_waited) and now_us >= self._again_us:
            began_ns = time.thread_time_ns()
            self._put("others", self._others.look_again(now_us))
            cost_us = (time.thread_time_ns() - began_ns) // 1000
            self.fast_cost_us += cost_us
            self._again_us = _due_us(self._again_us, now_us, cost_us / AGAIN_SHARE)

    def period(self) -> None:
        """Sample all of it; once a period."""
        sample = self._sampler.sample(self._watched)
        last, self._last = self._last, sample
        self.cost_us += sample.cost_us
        for pid in self._watched.keys() - sample.processes.keys():
            # A sample may miss a process that is busy ending its threads, or has no file to spare.
            if not os.path.isdir(f"/proc/{pid}"):
                del self._watched[pid]
        self._choose_fast(last, sample)
        if sample.threads:
            self._periods_of_sum += self._first_of_sum is not None
            self._first_of_sum, self._last_of_sum = self._first_of_sum or sample, sample
        if last is None:
            return
        began_ns = time.thread_time_ns()
        span = difference(last, sample)
        threads = thread_rows(last, sample, span)
        self._put("threads", threads)
        if self._has_node:
            self._put("cores", core_rows(last, sample, span, threads))
            self._put("states", node_rows(last, sample, span))
            if sample.gpus:
                self._put("gpus", gpu_rows(last, sample))
        self.cost_us += (time.thread_time_ns() - began_ns) // 1000

    def around(self, intervals: Iterable[tuple[int, int]]) -> NodeBatch | None:
        """Samples that overlap intervals and were not given away before; None without any."""
        parts: dict[str, list[Rows]] = {name: [] for name in (*self._rings, LOOKS)}
        bounds = []
        for begin_us, end_us in intervals:
            bounds += [begin_us, end_us]
            for name, ring in self._rings.items():
                parts[name].append(ring.take(begin_us, end_us))
            parts[LOOKS].append(self._fast.take(begin_us, end_us))
        if not bounds:
            return None
        rows = {name: np.concatenate(found) for name, found in parts.items()}
        # What slept all the time explains nothing, and most threads of a node do.
        for name in ("threads", LOOKS):
            of_threads = rows[name]
            has_run = (of_threads["ran_us"] > 0) | (of_threads["waited_us"] > 0)
            rows[name] = of_threads[has_run | _is_main(of_threads)]
        count = sum(map(len, rows.values()))
        if not count:
            return None
        if self._kept_rows + count > MOST_KEPT_ROWS:
            self._left_out += count
            return None
        self._kept_rows += count
        return self._batch(rows, False, min(bounds), max(bounds))

    def losses(self) -> NodeBatch | None:
        """Losses of ranks since the last call, kept from running, with samples from around them that were not
        given away before; None where ranks lost nothing.
        """
        # Not look by look: each would cost more, and so they would be further apart.
        for tid, stretch in self._fast.stretches():
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
        batch = self.around(intervals) or self._batch({}, False, begin_us, end_us)
        return msgspec.structs.replace(
            batch,
            losses=found,
            begin_us=min(batch.begin_us, begin_us),
            end_us=max(batch.end_us, end_us),
        )

    def due_sum(self, now_us: int, is_last: bool = False) -> NodeBatch | None:
        """The sum since the last one, if it is time for it."""
        length_us = int(1e6 * FIRST_SUM_S * 2 ** (self._sums // SUMS_OF_A_LENGTH))
        self._sum_begin_us = self._sum_begin_us or now_us
        if not is_last and now_us < self._sum_begin_us + length_us:
            return None
        begin_us, self._sum_begin_us = self._sum_begin_us, now_us
        rows = {
            name: summed(np.concatenate(found), KEYS[name]) for name, found in self._unsummed.items() if found
        }
        self._unsummed = {name: [] for name in self._rings}
        if not rows:
            return None
        self._sums += 1
        batch = self._batch(rows, True, begin_us, now_us)
        if self._has_node:
            batch = msgspec.structs.replace(batch, findings=self._found(rows))
            if self._sums == 1:
                # Not by lstopo, which would be a process for an agent to start.
                batch = msgspec.structs.replace(batch, parts=parts_of(read_sysfs()))
        self._first_of_sum, self._periods_of_sum = self._last_of_sum, 0
        now = self._last.threads if self._last is not None else {}
        self._names = {tid: name for tid, name in self._names.items() if tid in now}
        return batch

    def _found(self, rows: dict[str, Rows]) -> list[NodeFinding]:
        """Findings since the last sum."""
        first, last = self._first_of_sum, self._last_of_sum
        if first is None or last is None or self._periods_of_sum == 0:
            return []
        others, gpus = rows.get("others", np.zeros(0, OTHER)), rows.get("gpus", np.zeros(0, GPU))
        return found_between(first, last, self._periods_of_sum, rows["threads"], others, gpus)

    def close(self) -> None:
        """Close all files."""
        self._sampler.close()
        self._fast.close()
        self._files.close()

    def _put(self, name: str, rows: Rows) -> None:
        self._rings[name].put(rows)
        unsummed = self._unsummed[name]
        unsummed.append(rows)
        if len(unsummed) > MOST_UNSUMMED:
            self._unsummed[name] = [summed(np.concatenate(unsummed), KEYS[name])]

    def _choose_fast(self, last: Sample | None, sample: Sample) -> None:
        """Choose the threads that are sampled fast: the main ones, and those that ran."""
        chosen = {pid: pid for pid in self._watched}
        self._is_running = False
        for tid, one in sample.threads.items():
            if one.pid in self._watched:
                self._names[tid] = self._watched[one.pid], one.name, one.cpus
        if last is not None:
            least_ns = RUNNING_SHARE * 1000 * (sample.time_us - last.time_us)
            for tid, one in sample.threads.items():
                before = last.threads.get(tid)
                ran_ns = (one.ran_ns or 0) - ((before.ran_ns or 0) if before else 0)
                if ran_ns >= least_ns:
                    self._is_running = True
                    if len(chosen) < MOST_FAST:
                        chosen[tid] = one.pid
        for tid in self._fast_threads.keys() - chosen.keys():
            self._fast.forget(tid)
        self._fast_threads = chosen

    def _look_for_others(self, now_us: int) -> None:
        began_ns = time.thread_time_ns()
        self._put("others", self._others.look(now_us, self._watched.keys()))
        cost_us = (time.thread_time_ns() - began_ns) // 1000
        self.cost_us += cost_us
        self._others_due_us = now_us + int(max(OTHERS_S * 1e6, cost_us / OTHERS_SHARE))
        self._others_soonest_us = max(
            now_us + int(OTHERS_SOONEST_S * 1e6),
            _due_us(self._others_soonest_us, now_us, cost_us / OTHERS_SHARE),
        )

    def _batch(self, rows: dict[str, Rows], is_sum: bool, begin_us: int, end_us: int) -> NodeBatch:
        self._sequence += 1
        tids = {tid for name in ("threads", LOOKS) if name in rows for tid in rows[name]["tid"].tolist()}
        packed = {name: rows[name].tobytes() if name in rows else b"" for name in (*KEYS, LOOKS)}
        batch = NodeBatch(
            self._node,
            self._sequence,
            is_sum,
            begin_us,
            end_us,
            [name for name in map(self._name, sorted(tids)) if name is not None],
            packed["threads"],
            packed["cores"],
            packed["others"],
            packed["states"],
            cost_us=self.cost_us,
            fast_cost_us=self.fast_cost_us,
            left_out=self._left_out,
            looks=packed[LOOKS],
            gpus=packed["gpus"],
        )
        self.cost_us = self.fast_cost_us = self._left_out = 0
        return batch

    def _name(self, tid: int) -> ThreadName | None:
        found = self._names.get(tid)
        if found is None:
            return None
        watched, name, cpus = found
        thread = self._threads.get((watched.pid, tid), -1)
        return ThreadName(watched.pid, tid, name, watched.program, watched.rank, thread, cpus)


def _due_us(was_due_us: int, now_us: int, pause_us: float) -> int:
    """When somebody may look again, who does so now, and needs a pause for each look."""
    return max(was_due_us, now_us - SPARED_US) + int(pause_us)


def _is_main(threads: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(threads["pid"] == threads["tid"])
