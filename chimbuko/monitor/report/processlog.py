"""The log of each process: what it was started with, and on what, and in the end what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from chimbuko.core.files import write_atomically
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.procfs.topology import Topology
from chimbuko.monitor.report.layout import report
from chimbuko.monitor.report.locks import LockCounts
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.span import ProcessSpan, Span


class ProcessLogs:
    """``zs.RANK.log`` of all processes of a node; those without a rank are named by their numbers. Each has
    its configuration from when it was first seen on, and is written once more when all is over.
    """

    def __init__(self, folder: Path, node: str, topology: Topology) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._node = node
        self._topology = topology
        self._heads: dict[int, list[str]] = {}

    def begin(self, sample: Sample, identities: Mapping[int, Identity]) -> None:
        """Write the processes that are new in a sample."""
        if len(self._heads) > 2 * len(identities):
            self._heads = {pid: head for pid, head in self._heads.items() if pid in identities}
        for pid in sample.processes.keys() - self._heads.keys():
            if pid in identities:
                one = identities[pid]
                head = self._heads[pid] = self._configuration(one, sample.memory)
                self._write(one, identities, head)

    def end(
        self,
        total: Span,
        identities: Mapping[int, Identity],
        locks: Mapping[int, LockCounts] | None = None,
    ) -> None:
        """Write them all, with what each process did in all of the time."""
        for pid, one in identities.items():
            if pid in total.processes:
                # It was first seen by a monitor that has ended before this one.
                head = self._heads.get(pid) or self._configuration(one, None)
                reported = report(total, identities, self._node, pid, locks)
                lines = [*head, "", *reported, "", *_used(total, pid)]
                self._write(one, identities, lines)

    def _configuration(self, one: Identity, memory: NodeMemory | None) -> list[str]:
        rank = "none" if one.rank is None else f"{one.rank} of {one.size}"
        return [
            f"Node: {self._node}",
            f"Process: {one.pid}",
            f"Command: {one.command}",
            f"Rank: {rank}",
            f"CPUs allowed: [{format_cpulist(one.cpus)}]",
            *_memory(memory),
            "",
            "Environment:",
            *(f"{name}={value}" for name, value in one.variables.items()),
            "",
            "Topology (- marks what it may not use):",
            *self._topology.lines(one.cpus),
        ]

    def _write(self, one: Identity, identities: Mapping[int, Identity], lines: list[str]) -> None:
        ranked = [pid for pid, other in identities.items() if other.rank == one.rank is not None]
        name = f"{self._node}.{one.pid}" if one.rank is None else f"{one.rank}"
        # What a rank starts says that it is this rank, too.
        further = f".{one.pid}" if one.pid in ranked[1:] else ""
        text = "\n".join(lines) + "\n"
        write_atomically(self._folder / f"zs.{name}{further}.log", text.encode(errors="replace"))


def _memory(memory: NodeMemory | None) -> Iterator[str]:
    if memory is not None:
        yield (
            f"Memory of the node: {_mb(memory.total_bytes)}, {_mb(memory.free_bytes)} free, "
            f"{_mb(memory.available_bytes)} available"
        )


def _used(total: Span, pid: int) -> Iterator[str]:
    """Memory, storage and what there was too little of."""
    yield from _used_by(total.processes[pid])
    if total.least_available_bytes is not None:
        yield f"Memory of the node: at least {_mb(total.least_available_bytes)} available"
    if total.pressure_s:
        waits = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in sorted(total.pressure_s.items()))
        yield f"Pressure (a task of the node waited): {waits}"


def _used_by(one: ProcessSpan) -> Iterator[str]:
    swapped = f", {_mb(one.swapped_bytes)} moved to storage" if one.swapped_bytes else ""
    yield f"Memory: {_mb(one.resident_bytes)} at the end, at most {_mb(one.peak_bytes)}{swapped}"
    yield f"Storage: {_mb(one.read_bytes)} read, {_mb(one.written_bytes)} written"
    if one.group is not None:
        limit = "no limit" if one.group.limit_bytes is None else f"{_mb(one.group.limit_bytes)} at most"
        yield (
            f"Control group: {_mb(one.group.used_bytes)} used at the end, {limit}; "
            f"kept from its cores for {one.throttled_s:.2f} s"
        )


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MB"
