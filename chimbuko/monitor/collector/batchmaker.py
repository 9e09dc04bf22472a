"""Batches of rows as they leave the node, in their order, with its description, findings, and what the
sampling costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from chimbuko.monitor.collector.fastring import KEYS
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs.gpuspan import TEMPERATURE, GpuSpan, Metric
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.procfs.topology import Part, Topology
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.nodebatch import NodeBatch, NodeFinding, NodePart, ThreadName
from chimbuko.monitor.sampling.rows import GPU, OTHER, Rows
from chimbuko.monitor.sampling.sample import Sample, ThreadCounters
from chimbuko.monitor.sampling.span import Growth, OtherLoad, Span, Standstill, ThreadSpan

# Description of a node, and findings between two samples, as batches carry them.


def parts_of(topology: Topology) -> list[NodePart]:
    """Return all parts, outer ones first."""
    return list(_parts(topology.root, 0))


def _parts(part: Part, depth: int) -> Iterator[NodePart]:
    cpus = format_cpulist(part.cpus)
    yield NodePart(depth, part.kind, part.logical, part.physical, cpus, part.size_bytes)
    for child in part.children:
        yield from _parts(child, depth + 1)


def found_between(
    first: Sample,
    last: Sample,
    periods: int,
    threads: Rows,
    others: Rows,
    gpus: Rows,
    standstills: Mapping[int, Standstill],
    growing: tuple[Growth, ...] = (),
) -> list[NodeFinding]:
    """Return the findings between two samples.

    Parameters
    ----------
    periods
        How many lie between them.
    threads, others, gpus
        THREAD, OTHER and GPU rows of that time, summed.
    standstills
        Processes that stand still at its end.
    growing
        Processes whose memory has grown all the time.
    """
    whole = difference(first, last)
    moves = dict(zip(threads["tid"].tolist(), threads["migrations"].tolist(), strict=True))
    span = replace(
        whole,
        # Of a thread that was not there at first nobody knows what it did before.
        threads={
            tid: _over(one, periods, moves.get(tid, 0))
            for tid, one in whole.threads.items()
            if tid in first.threads
        },
        others=_others(others),
        gpus={int(row["gpu"]): _gpu(row, periods) for row in gpus},
        standstills=dict(standstills),
        growing=growing,
        periods=periods,
        still_periods=periods * whole.still_periods,
    )
    return found_in(span)


def found_in(span: Span) -> list[NodeFinding]:
    """Return the findings of a span."""
    return [NodeFinding(one.kind, one.text, one.advice) for one in findings(span)]


def _over(one: ThreadSpan, periods: int, moves: int) -> ThreadSpan:
    """Return a thread with what only its periods tell: who did nothing in all of them stood still in each."""
    return replace(one, periods=periods, migrations=moves, still_periods=periods * one.still_periods)


def _gpu(row: np.void, periods: int) -> GpuSpan:
    degrees = float(row["temperature_c"])
    heat = {TEMPERATURE: Metric(degrees, degrees * periods, degrees, degrees, periods)} if degrees else {}
    throttled = round(periods * float(row["throttled_us"] / max(1, row["length_us"])))
    return GpuSpan(row["name"].decode(errors="replace"), heat, periods, throttled)


def _others(rows: Rows) -> dict[tuple[str, str], OtherLoad]:
    """Return processes by name and user."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    pids: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows:
        name, user = (row[what].decode(errors="replace") for what in ("name", "user"))
        seconds[name, user] += row["ran_us"] / 1e6
        pids[name, user].add(int(row["pid"]))
    return {who: OtherLoad(ran_s, len(pids[who])) for who, ran_s in seconds.items()}


FIRST_SUM_S = 10.0
SUMS_OF_A_LENGTH = 120
"""Number of sums after which their length doubles, so that their number grows with the logarithm of a run's
length."""


class CurrentSum:
    """Time of a sum, one after the other, with its first and last sample that have threads in them."""

    def __init__(self) -> None:
        self._begin_us = 0
        self._made = 0
        """Number of sums that are made."""
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._periods = 0
        """Number of periods between the first and the last sample."""

    def take(self, sample: Sample) -> None:
        """Note the sample of a period."""
        if sample.threads:
            self._periods += self._first is not None
            self._first, self._last = self._first or sample, sample

    @property
    def is_first(self) -> bool:
        """Whether no sum has been made before."""
        return self._made == 0

    def is_due(self, now_us: int) -> bool:
        """Return whether it is time for the sum; the first one begins when this is asked first."""
        self._begin_us = self._begin_us or now_us
        return now_us >= self._begin_us + int(1e6 * FIRST_SUM_S * 2 ** (self._made // SUMS_OF_A_LENGTH))

    def begin_next(self, now_us: int) -> int:
        """Begin the time of the next sum, and return when that of this one began."""
        begin_us, self._begin_us = self._begin_us, now_us
        return begin_us

    def findings(
        self,
        rows: dict[str, Rows],
        standstills: Mapping[int, Standstill],
        growing: tuple[Growth, ...] = (),
    ) -> list[NodeFinding]:
        """Return the findings in the time of the sum, of which these are the rows, by kind, and at whose end
        these processes stand still, or have grown.
        """
        if self._first is None or self._last is None or self._periods == 0:
            # The ranks have ended before.
            return found_in(Span(seconds=0.0, threads={}, growing=growing))
        others, gpus = rows.get("others", np.zeros(0, OTHER)), rows.get("gpus", np.zeros(0, GPU))
        return found_between(
            self._first, self._last, self._periods, rows["threads"], others, gpus, standstills, growing
        )

    def note_made(self) -> None:
        """Note that the sum is made: the next one begins with its last sample."""
        self._first, self._periods = self._last, 0
        self._made += 1


class ThreadNames:
    """Names of all threads that batches to come may hold, also of those that have ended meanwhile."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], list[int]] = {}
        """Numbers of each thread in the trace, by process and thread: its own, and those of its further
        stacks, as coroutines have them.
        """
        self._tids: dict[tuple[int, int], int] = {}
        """Thread by process and number, which may be given again when a thread has ended."""
        self._names: dict[int, tuple[Watched, str, str]] = {}
        """Process, name and cores of each thread."""

    def number(self, pid: int, tid: int, thread: int) -> None:
        """Note a number of a thread in the trace; the first one is its own."""
        before = self._tids.get((pid, thread))
        if before == tid:
            return
        if before is not None:
            self._numbers[pid, before].remove(thread)
        self._tids[pid, thread] = tid
        self._numbers.setdefault((pid, tid), []).append(thread)

    def number_of(self, pid: int, tid: int) -> int | None:
        """Return a thread's number in the trace, if it is known."""
        return next(iter(self._numbers.get((pid, tid), ())), None)

    def note(self, watched: Mapping[int, Watched], threads: Mapping[int, ThreadCounters]) -> None:
        """Note the threads of watched processes as they are now."""
        for tid, one in threads.items():
            if one.pid in watched:
                self._names[tid] = watched[one.pid], one.name, one.cpus

    def note_gone(self, watched: Watched, tid: int, name: str) -> None:
        """Note a thread that is over."""
        self._names[tid] = watched, name, ""

    def keep(self, tids: Container[int]) -> None:
        """Forget all other threads."""
        self._names = {tid: name for tid, name in self._names.items() if tid in tids}

    def of(self, tids: Iterable[int]) -> list[ThreadName]:
        """Return the names of threads, as far as they are known, in the order of their numbers."""
        return [self._name(tid, *self._names[tid]) for tid in sorted(tids) if tid in self._names]

    def _name(self, tid: int, watched: Watched, name: str, cpus: str) -> ThreadName:
        thread, *stacks = self._numbers.get((watched.pid, tid)) or [-1]
        return ThreadName(watched.pid, tid, name, watched.program, watched.rank, thread, cpus, tuple(stacks))


MOST_KEPT_ROWS = 500_000
"""Rows around flagged calls, and losses, that leave the node in one run: 30 MB before they are packed."""
LOOKS = "looks"
"""Kind of the rows between two fast looks at a thread."""


class Costs(msgspec.Struct):
    """CPU time of samples since the last batch, in µs."""

    period_us: int = 0
    """CPU time of the samples of each period, and of looks at all other processes."""
    fast_us: int = 0


class BatchMaker:
    """Maker of the batches of a node.

    Parameters
    ----------
    sequence
        Number before that of the first batch: larger than any that this node has used in the run before.
    """

    def __init__(self, node: str, sequence: int, names: ThreadNames) -> None:
        self.costs = Costs()
        self._node = node
        self._sequence = sequence
        self._names = names
        self._kept_rows = self._left_out = 0

    def admits(self, count: int) -> bool:
        """Return whether there is room for so many further rows; if not, they count as left out."""
        has_room = self._kept_rows + count <= MOST_KEPT_ROWS
        if has_room:
            self._kept_rows += count
        else:
            self._left_out += count
        return has_room

    def make(self, rows: dict[str, Rows], is_sum: bool, begin_us: int, end_us: int) -> NodeBatch:
        """Return a batch of rows by kind."""
        self._sequence += 1
        tids = {tid for kind in ("threads", LOOKS) if kind in rows for tid in rows[kind]["tid"].tolist()}
        packed = {kind: rows[kind].tobytes() if kind in rows else b"" for kind in (*KEYS, LOOKS)}
        batch = NodeBatch(
            self._node,
            self._sequence,
            is_sum,
            begin_us,
            end_us,
            self._names.of(tids),
            packed["threads"],
            packed["cores"],
            packed["others"],
            packed["states"],
            cost_us=self.costs.period_us,
            fast_cost_us=self.costs.fast_us,
            left_out=self._left_out,
            looks=packed[LOOKS],
            gpus=packed["gpus"],
        )
        self.costs.period_us = self.costs.fast_us = self._left_out = 0
        return batch
