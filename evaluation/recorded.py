"""Recorded TAU traces as scenarios: delays found, flags raised, and what the other flags are."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chimbuko.ad.calls.stacks import CallStacks
from chimbuko.capture.trace.discovery import StreamName, find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import TraceStep
from evaluation import incidents
from evaluation.cluster import Cluster, MakeCluster, Source
from evaluation.incidents import IncidentScore
from evaluation.interleaving import TroubledCluster
from evaluation.score import f1_of_sets
from evaluation.tables import ResultTable, number
from examples.truth import InjectedDelay, match, read_truth

TRACES = Path(__file__).parent.parent / "tests" / "data"
"""Archives that are always there."""
ARCHIVES = "*.tar.xz"
AGENTS = (1, 2, 4)
LIVE_SEED = 1
TROUBLE_SEED = 1
SLOW_SHARE = 0.98
SLOW_FACTOR = 4.0
"""A call is called slow here when it is longer than this share of its function's calls in the whole run,
injected delays among them, and takes at least so many times their median."""
OPEN_END_S = 1.0


@dataclass(frozen=True)
class Explained:
    """A flag that is no injected delay, and what else is known of the call."""

    call: CallRecord
    median_us: float
    """Of the function over all ranks and the whole run, exclusive."""
    p99_us: float
    longer_share: float
    """Of the function's calls so many are longer still."""
    beside: str
    """Which delay the call contains or overlaps."""

    @property
    def is_slow(self) -> bool:
        """Longer than 98 % of the function's calls, and four times their median."""
        is_long = self.call.exclusive_us >= SLOW_FACTOR * self.median_us
        return is_long and self.longer_share <= 1 - SLOW_SHARE

    @property
    def row(self) -> tuple[str, ...]:
        """For the table."""
        call = self.call
        return (
            call.function.split(" [")[0],
            str(call.rank),
            call.id,
            f"{call.exclusive_us:,}",
            f"{self.median_us:,.0f}",
            f"{self.p99_us:,.0f}",
            f"{call.exclusive_us / max(self.median_us, 1.0):,.1f}",
            f"{self.longer_share:.2%}",
            self.beside,
        )


@dataclass(frozen=True)
class RecordedResult:
    """What one detector did with one trace."""

    trace: str
    detector: str
    calls: int
    delays: int
    found: int
    flags: int
    is_same_for_all: bool
    """The same flags for any number of agents."""
    live_agreement: float
    missed: list[InjectedDelay]
    others: list[Explained]
    """Flags that are no injected delay."""
    incidents: IncidentScore

    def as_json(self) -> dict[str, Any]:
        """Counts, and what was missed."""
        beside = Counter(other.beside.split(":")[0] for other in self.others)
        return {
            "trace": self.trace,
            "detector": self.detector,
            "calls": self.calls,
            "delays": self.delays,
            "found": self.found,
            "flags": self.flags,
            "is_same_for_all": self.is_same_for_all,
            "live_agreement": self.live_agreement,
            "missed": [f"{d.function} {d.milliseconds} ms on rank {d.rank}" for d in self.missed],
            "others_slow": sum(other.is_slow for other in self.others),
            "others_beside": dict(beside),
            "incidents": asdict(self.incidents),
        }


def unpack_traces(archives: Path, folder: Path) -> Iterator[Path]:
    """Unpack the archives of streams in a folder; yields each trace's folder."""
    for archive in sorted(archives.glob(ARCHIVES)):
        shutil.unpack_archive(archive, folder)
        trace = folder / archive.name.removesuffix(".tar.xz")
        if any(trace.glob("*.bp")):
            yield trace


def analyse(
    found: list[StreamName], config: AnalysisConfig, agents: int, make_cluster: MakeCluster = Cluster
) -> Cluster:
    """Recorded streams through agents and server; each program is one of its own."""
    programs = sorted({stream.program for stream in found})
    with ExitStack() as stack:
        readers = [stack.enter_context(StreamReader(stream.path, "BPFile")) for stream in found]
        sources = [
            Source(programs.index(stream.program), stream.rank, reader.names, read_steps(reader))
            for stream, reader in zip(found, readers, strict=True)
        ]
        return make_cluster(sources, agents, config)


def measure(trace: Path, config: AnalysisConfig) -> RecordedResult:
    """Analyse one trace with one agent; with 1, 2 and 4 agents over a troubled broker; and as if live."""
    found = find_recorded([str(trace / "*.bp")])
    cluster = analyse(found, config, 1)
    first = _flagged(cluster)
    troubled = partial(TroubledCluster, seed=TROUBLE_SEED)
    others = [_flagged(analyse(found, config, agents, troubled)) for agents in AGENTS]
    live = _flagged(analyse(found, config, AGENTS[-1], partial(Cluster, live_seed=LIVE_SEED)))
    delays = read_truth(sorted(trace.glob("truth*.txt")))
    matched = match(delays, list(first.values()))
    runtimes = runtimes_of(found)
    contain = {call.id for call in first.values() if any(delay.is_in(call) for delay in delays)}
    return RecordedResult(
        trace=trace.name,
        detector=config.detector,
        calls=sum(len(values) for values in runtimes.values()),
        delays=len(delays),
        found=sum(call is not None for _, call in matched),
        flags=len(first),
        is_same_for_all=all(other.keys() == first.keys() for other in others),
        live_agreement=f1_of_sets(len(first.keys() & live.keys()), len(first), len(live)),
        missed=[delay for delay, call in matched if call is None],
        others=[
            _explain(call, runtimes[call.function], delays)
            for call in first.values()
            if call.id not in contain
        ],
        incidents=incidents.measure(cluster.records(), delays),
    )


def table(results: list[RecordedResult]) -> ResultTable:
    """One row per trace and detector."""
    columns = ("trace", "detector", "calls", "delays", "found", "flags", "others slow", "same", "live F1")
    rows = [
        (
            result.trace,
            result.detector,
            f"{result.calls:,}",
            str(result.delays),
            str(result.found),
            str(result.flags),
            f"{sum(other.is_slow for other in result.others)}/{len(result.others)}",
            "yes" if result.is_same_for_all else "NO",
            number(result.live_agreement),
        )
        for result in results
    ]
    return ResultTable("Recorded traces", columns, rows)


def explanation(result: RecordedResult) -> list[ResultTable]:
    """What the other flags are, longest in comparison first; and which delays were missed."""
    others = sorted(result.others, key=lambda other: -other.call.exclusive_us / max(other.median_us, 1.0))
    columns = ("function", "rank", "call", "µs", "median", "p99", "ratio", "longer", "beside")
    missed = [
        (delay.function, str(delay.rank), str(delay.index), str(delay.milliseconds))
        for delay in result.missed
    ]
    where = f"{result.trace}, {result.detector}"
    return [
        ResultTable(f"{where}: flags that are no injected delay", columns, [other.row for other in others]),
        ResultTable(f"{where}: delays missed", ("function", "rank", "index", "ms"), missed),
    ]


def _flagged(cluster: Cluster) -> dict[str, CallRecord]:
    """By id."""
    return {call.id: call for call in cluster.anomalies()}


def read_steps(reader: StreamReader) -> Iterator[TraceStep]:
    while isinstance(step := reader.next_step(OPEN_END_S), TraceStep):
        yield step


def runtimes_of(found: list[StreamName]) -> dict[str, Float64Array]:
    """Exclusive runtimes of all complete calls per function, ascending."""
    pieces: dict[str, list[Float64Array]] = defaultdict(list)
    for stream in found:
        stacks = CallStacks(stream.rank)
        with StreamReader(stream.path, "BPFile") as reader:
            for step in read_steps(reader):
                stacks.build(step, reader.names)
                calls = stacks.calls[: stacks.count]
                calls = calls[calls["exit"] > 0]
                exclusive_us = (calls["exit"] - calls["entry"] - calls["child_us"]).astype(np.float64)
                for timer in np.unique(calls["function"]).tolist():
                    pieces[reader.names.timers[timer]].append(exclusive_us[calls["function"] == timer])
    return {name: np.sort(np.concatenate(parts)) for name, parts in pieces.items()}


def _explain(call: CallRecord, runtimes: Float64Array, delays: list[InjectedDelay]) -> Explained:
    return Explained(
        call,
        float(np.median(runtimes)),
        float(np.quantile(runtimes, 0.99)),
        1.0 - float(np.searchsorted(runtimes, call.exclusive_us, side="right")) / len(runtimes),
        _beside(call, delays),
    )


def _beside(call: CallRecord, delays: list[InjectedDelay]) -> str:
    """The longest delay that happened during the call, on its own rank first."""
    during = [d for d in delays if d.start_us < call.exit_us and d.end_us > call.entry_us]
    if not during:
        return "no delay"
    one = max(during, key=lambda delay: (delay.rank == call.rank, delay.end_us - delay.start_us))
    where = "delay on its own rank" if one.rank == call.rank else "delay on another rank"
    return f"{where}: {one.function} {one.milliseconds} ms on {one.rank}"
