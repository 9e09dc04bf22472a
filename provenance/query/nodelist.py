"""Nodes that there are samples of, their stored samples, facts about a node from all of them, and what
findings about it cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from sqlalchemy import ColumnElement, func, select, tuple_

from chimbuko.causes.wording import duration
from chimbuko.core.arrays import RankKey
from chimbuko.monitor.sampling.nodebatch import NodeBatch, NodePart, ThreadName, unpacked
from chimbuko.monitor.sampling.rows import CORE, NODE, THREAD, summed
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.tables import NODE_SAMPLES

FOREVER_US = 1 << 62
AT_ONCE = 32
"""Number of batches that one statement reads: half a MB of a large node's."""


class NodeSamples:
    """Samples of a run's nodes."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def batches(
        self, begin_us: int, end_us: int, is_sum: bool = False, node: str | None = None
    ) -> Iterator[NodeBatch]:
        """Yield samples from around flagged calls in an interval, or sums; of one node or all, by time."""
        columns = NODE_SAMPLES.c
        wanted: tuple[ColumnElement[bool], ...] = (
            columns.run == self._reader.run,
            columns.is_sum.is_(is_sum),
            columns.begin_us < end_us,
            columns.end_us > begin_us,
        )
        if node is not None:
            wanted += (columns.node == node,)
        keys = select(columns.node, columns.sequence).where(*wanted).order_by(columns.begin_us)
        found = self._reader.rows(keys)
        for first in range(0, len(found), AT_ONCE):
            some = [(key.node, key.sequence) for key in found[first : first + AT_ONCE]]
            is_one = tuple_(columns.node, columns.sequence).in_(some)
            rows = self._reader.rows(
                select(columns.node, columns.sequence, columns.rows).where(
                    columns.run == self._reader.run, is_one
                )
            )
            packed = {(row.node, row.sequence): row.rows for row in rows}
            # A run may be pruned meanwhile.
            yield from (unpacked(packed[key]) for key in some if key in packed)


class SampledNode(msgspec.Struct, frozen=True):
    """Node that there are samples of."""

    name: str
    begin_us: int
    end_us: int


class NodeRank(msgspec.Struct, frozen=True):
    """Activity of a rank on its node, all its threads together, as far as there are sums."""

    program: int
    rank: int
    pid: int
    cpus: str
    """Cores on which its main thread may run, as ``0-3,8``; empty if that is not known."""
    threads: int
    """Number of threads that were seen."""
    length_us: int
    """Time for which its main thread was watched."""
    ran_us: int
    system_us: int
    """Part of the running time that was spent in the kernel."""
    waited_us: int
    """Time that its threads waited for a core."""


class DatedFinding(msgspec.Struct, frozen=True):
    """Finding that was made again and again, as it was made last."""

    kind: str
    text: str
    advice: str
    times: list[tuple[int, int]]
    """Times at which it was so, by begin and end in µs; what follows without a break is one."""


class NodeFacts(msgspec.Struct, frozen=True):
    """Facts about a node from all its samples."""

    begin_us: int
    end_us: int
    ranks: list[NodeRank]
    findings: list[DatedFinding]
    """Findings, those that lasted longest first, and of those in the order of the sums."""
    parts: list[NodePart]
    """Parts of its hardware; empty if no agent reported them."""
    cores: int
    """Number of hardware threads."""
    cores_us: int
    """Time of all hardware threads together."""
    busy_us: int
    """Part of this time in which they were not idle."""
    own_us: int
    """Part of the busy time that the ranks' threads used."""
    memory_bytes: int
    """Memory of the node; 0 if it is not known."""
    least_available_bytes: int
    sample_us: int
    """CPU time that taking the samples took."""
    left_out: int
    """Number of rows around abnormal calls for which there was no room."""


def sampled_nodes(reader: RunReader) -> list[SampledNode]:
    """Return all nodes that there are samples of, by name."""
    columns = NODE_SAMPLES.c
    statement = (
        select(
            columns.node, func.min(columns.begin_us).label("first"), func.max(columns.end_us).label("last")
        )
        .where(columns.run == reader.run)
        .group_by(columns.node)
        .order_by(columns.node)
    )
    return [SampledNode(row.node, row.first, row.last) for row in reader.rows(statement)]


def node_facts(reader: RunReader, node: str) -> NodeFacts | None:
    """Return what the sums of a node say; None if there are no samples of it.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    one = next((found for found in sampled_nodes(reader) if found.name == node), None)
    if one is None:
        return None
    sums = _sums(reader, node)
    cores = _all([batch.core_rows() for batch in sums], CORE)
    states = _all([batch.state_rows() for batch in sums], NODE)
    parts: list[NodePart] = next((batch.parts for batch in reversed(sums) if batch.parts), [])
    idle_us, busy_us = (
        int(cores["idle_us"].sum()),
        sum(int(cores[name].sum(dtype=np.int64)) for name in ("user_us", "system_us", "steal_us")),
    )
    return NodeFacts(
        begin_us=one.begin_us,
        end_us=one.end_us,
        ranks=_ranks(sums),
        findings=dated(sums),
        parts=parts,
        cores=len(set(cores["cpu"].tolist())),
        cores_us=idle_us + busy_us,
        busy_us=busy_us,
        own_us=int(cores["own_us"].sum(dtype=np.int64)),
        memory_bytes=int(states["memory_bytes"].max(initial=0)),
        least_available_bytes=int(states["available_bytes"].min()) if len(states) else 0,
        sample_us=sum(batch.cost_us + batch.fast_cost_us for batch in sums),
        left_out=sum(batch.left_out for batch in sums),
    )


class ThreadTimes(NamedTuple):
    """Time of the threads of a node that are in the traces of its ranks, in µs."""

    watched_us: int
    ran_us: int
    waited_us: int

    @property
    def waited(self) -> float:
        """Return the share of the time in which they could have run that they waited for a core."""
        return self.waited_us / max(1, self.ran_us + self.waited_us)


class DatedTimes(NamedTuple):
    """Time of threads between two moments, in µs since the epoch."""

    begin_us: int
    end_us: int
    times: ThreadTimes


def dated_thread_times(reader: RunReader, node: str, ranks: Collection[RankKey] = ()) -> list[DatedTimes]:
    """Return what each sum of a node says of the threads that are recorded, in the order of time.

    Parameters
    ----------
    ranks
        Ranks whose threads count; without any those of all.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    sums = _sums(reader, node)
    recorded = [
        name.tid
        for batch in sums
        for name in batch.names
        if name.thread >= 0 and (not ranks or (name.program, name.rank) in ranks)
    ]
    found = []
    for batch in sums:
        rows = batch.thread_rows()
        # Of none numpy makes a search that loads numpy.ma: a tenth of the end of a run without threads.
        rows = rows[np.isin(rows["tid"], recorded)] if recorded else rows[:0]
        times = (int(rows[what].sum(dtype=np.int64)) for what in ("length_us", "ran_us", "waited_us"))
        found.append(DatedTimes(batch.begin_us, batch.end_us, ThreadTimes(*times)))
    return found


def thread_times(reader: RunReader, node: str) -> ThreadTimes:
    """Return what the sums of a node say of all threads that are recorded.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found = [one.times for one in dated_thread_times(reader, node)]
    return ThreadTimes(*(sum(column) for column in zip(ThreadTimes(0, 0, 0), *found, strict=True)))


def all_thread_times(reader: RunReader) -> ThreadTimes:
    """Return the same of all nodes together."""
    found = [thread_times(reader, node.name) for node in sampled_nodes(reader)]
    return ThreadTimes(*map(sum, zip(*found, strict=True))) if found else ThreadTimes(0, 0, 0)


def ran_shares(reader: RunReader) -> dict[tuple[int, int, int], float]:
    """Return which share of the time in which it could have run each thread that is recorded did run, by
    program, rank and thread; the rest it waited for a core.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    shares = {}
    for node in sampled_nodes(reader):
        sums = _sums(reader, node.name)
        names = {name.tid: name for batch in sums for name in batch.names if name.thread >= 0}
        for row in summed(_all([batch.thread_rows() for batch in sums], THREAD), ["tid"]):
            name, ran_us = names.get(int(row["tid"])), int(row["ran_us"])
            if name is not None:
                times = ThreadTimes(int(row["length_us"]), ran_us, int(row["waited_us"]))
                shares[name.program, name.rank, name.thread] = 1.0 - times.waited
    return shares


def dated(sums: Iterable[NodeBatch]) -> list[DatedFinding]:
    """Return the findings of all sums, by their kind: those that lasted longest first, and of those that
    lasted as long, in the order in which their last sum has them.
    """
    last: dict[str, NodeBatch] = {}
    times: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for batch in sums:
        for kind in {one.kind for one in batch.findings}:
            begin_us, end_us = batch.begin_us, batch.end_us
            if times[kind] and begin_us <= times[kind][-1][1]:
                begin_us = times[kind].pop()[0]
            times[kind].append((begin_us, end_us))
            last[kind] = batch
    found = [
        (sum(begin_us - end_us for begin_us, end_us in times[kind]), place, kind, one)
        for kind, batch in last.items()
        for place, one in enumerate(batch.findings)
        if one.kind == kind
    ]
    found.sort(key=lambda one: one[:3])
    return [DatedFinding(kind, one.text, one.advice, times[kind]) for _, _, kind, one in found]


def _sums(reader: RunReader, node: str) -> list[NodeBatch]:
    batches = NodeSamples(reader).batches(0, FOREVER_US, is_sum=True, node=node)
    return [batch for batch in batches if batch.is_known]


def _ranks(sums: list[NodeBatch]) -> list[NodeRank]:
    names = {name.tid: name for batch in sums for name in batch.names}
    rows = _all([batch.thread_rows() for batch in sums], THREAD)
    of_rank: defaultdict[tuple[int, int, int], list[tuple[ThreadName, np.void]]] = defaultdict(list)
    for row in summed(rows, ["tid"]):
        name = names.get(int(row["tid"]))
        if name is not None:
            of_rank[name.program, name.rank, name.pid].append((name, row))
    found = []
    for (program, rank, pid), threads in sorted(of_rank.items()):
        main = next((one for one in threads if one[0].tid == pid), threads[0])
        ran, system, waited = (
            sum(int(row[what]) for _, row in threads) for what in ("ran_us", "system_us", "waited_us")
        )
        length_us = int(main[1]["length_us"])
        found.append(
            NodeRank(program, rank, pid, main[0].cpus, len(threads), length_us, ran, min(system, ran), waited)
        )
    return found


def _all(parts: list[np.ndarray], dtype: np.dtype[np.void]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *parts])


# Findings about nodes with what they cost: they stand beside the incidents.


WAITING = ("throttled", "oversubscribed", "analysis beside workers", "foreign load")
"""Kinds of findings by which threads wait for cores. Of several of one node the waits count for the one that
lasted longest, and of those that lasted as long for that which took most.
"""

OF_MEMORY = ("killed for memory", "memory filling", "memory growing")
"""Kinds of findings that cost no time, and may end a run."""


class NodeCost(msgspec.Struct, frozen=True):
    """Finding about a node that cost its ranks time, or memory."""

    node: str
    kind: str
    sentence: str
    cost_us: float
    """Time for which the ranks' threads waited for a core; 0 for one about memory."""
    begin_us: int


def node_costs(reader: RunReader) -> list[NodeCost]:
    """Return the findings about nodes that cost time, the most costly first, and those about memory.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    found: list[NodeCost] = []
    for node in sampled_nodes(reader):
        facts = node_facts(reader, node.name)
        if facts is not None:
            found += _costs(node.name, facts)
    return sorted(found, key=lambda one: (-one.cost_us, one.node))


def _costs(node: str, facts: NodeFacts) -> list[NodeCost]:
    found = [
        NodeCost(node, one.kind, f"On {node} {one.text}; {one.advice}.", 0.0, one.times[0][0])
        for one in facts.findings
        if one.kind in OF_MEMORY
    ]
    waiting = [one for one in facts.findings if one.kind in WAITING]
    waited_us = float(sum(rank.waited_us for rank in facts.ranks))
    if not waiting or waited_us <= 0.0:
        return found
    first, *further = waiting
    also = "".join(f" Also, {one.text}." for one in further)
    sentence = (
        f"On {node} {first.text}: its threads waited {duration(waited_us)} for a core in all; "
        f"{first.advice}.{also}"
    )
    return [NodeCost(node, first.kind, sentence, waited_us, first.times[0][0]), *found]
