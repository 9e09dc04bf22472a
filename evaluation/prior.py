"""The first minute of recorded traces that begin with what another run, or their own first half, has learned.

Each is judged twice, without and with that model. A delay counts as clear if it takes at least five times
the median of its function's ordinary calls in that trace, and longer than all but one in 1,000 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.provenance.history.priors import merged_prior, packed_model
from evaluation.cluster import Cluster, Source
from evaluation.recorded import AGENTS, LIVE_SEED, read_steps, runtimes_of
from evaluation.score import CLEAR_FACTOR
from evaluation.tables import ResultTable
from examples.truth import InjectedDelay, match, read_truth

MINUTE_US = 60_000_000
CLEAR_SHARE = 0.999
LEAST_IN_COMMON = 0.8
"""Share of a trace's functions that another one must have, to be one of the same program."""
OWN_HALF = "its own first half"


@dataclass(frozen=True)
class Stream:
    """One stream, read once."""

    program: int
    rank: int
    names: StreamNames
    steps: list[TraceStep]


@dataclass(frozen=True)
class Judged:
    """What was flagged in the first minute."""

    found: int
    clear_found: int
    others: int
    """Flagged calls that hold no delay."""


@dataclass(frozen=True)
class PriorResult:
    """One trace with one model to begin with, nobody waiting for anybody or in lockstep."""

    trace: str
    prior: str
    is_live: bool
    delays: int
    clear: int
    without: Judged
    with_prior: Judged

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return asdict(self)


def read_trace(trace: Path) -> list[Stream]:
    """All streams of a trace, in memory."""
    found = find_recorded([str(trace / "*.bp")])
    programs = sorted({stream.program for stream in found})
    streams = []
    for stream in found:
        with StreamReader(stream.path, "BPFile") as reader:
            steps = [_copied(step) for step in read_steps(reader)]
            streams.append(Stream(programs.index(stream.program), stream.rank, reader.names, steps))
    return streams


def measure(traces: list[Path], config: AnalysisConfig) -> Iterator[PriorResult]:
    """Judge the second half of each trace by its first, and each whole trace by others of its program."""
    read = {trace: read_trace(trace) for trace in traces}
    whole = {trace: _learned(streams, config) for trace, streams in read.items()}
    for trace, streams in read.items():
        half = (max(step.step for stream in streams for step in stream.steps) + 1) // 2
        first, second = (_steps(streams, *part) for part in ((0, half), (half, None)))
        others = {
            other.name: prior
            for other, prior in whole.items()
            if other != trace and _in_common(whole[trace], prior) >= LEAST_IN_COMMON
        }
        for is_live in (False, True):
            yield FirstMinute(trace, second, config, is_live).judge(OWN_HALF, _learned(first, config))
            if others:
                minute = FirstMinute(trace, streams, config, is_live)
                yield from (minute.judge(name, prior) for name, prior in others.items())


def table(results: Iterable[PriorResult]) -> ResultTable:
    """One row each."""
    columns = ("trace", "begins with", "agents", "delays", "found", "clear found", "other flags")
    rows = []
    for one in results:
        agents = f"{AGENTS[-1]} live" if one.is_live else "1"
        what = one.trace, one.prior, agents, f"{one.delays}, {one.clear} clear"
        pairs = [
            f"{getattr(one.without, name)} → {getattr(one.with_prior, name)}"
            for name in ("found", "clear_found", "others")
        ]
        rows.append((*what, *pairs))
    title = "The first minute of recorded traces, without and with the model of earlier runs"
    return ResultTable(title, columns, rows)


class FirstMinute:
    """Streams with their truth, to be judged."""

    def __init__(self, trace: Path, streams: list[Stream], config: AnalysisConfig, is_live: bool) -> None:
        begins = [step.interval_us() for stream in streams for step in stream.steps]
        self.begin_us = min(one[0] for one in begins if one is not None)
        truth = read_truth(sorted(trace.glob("truth*.txt")))
        self.delays = [one for one in truth if self._is_in_minute(one.start_us)]
        self.trace, self.streams, self.config, self.is_live = trace, streams, config, is_live
        runtimes = runtimes_of(find_recorded([str(trace / "*.bp")]))
        self.clear = {one for one in self.delays if is_clear(one, truth, runtimes)}
        self.without = self._judged(None)

    def judge(self, name: str, prior: Model) -> PriorResult:
        """Judge with a model, too."""
        counts = len(self.delays), len(self.clear)
        return PriorResult(self.trace.name, name, self.is_live, *counts, self.without, self._judged(prior))

    def _judged(self, prior: Model | None) -> Judged:
        make = partial(Cluster, live_seed=LIVE_SEED if self.is_live else None, base=prior)
        cluster = make(_sources(self.streams), AGENTS[-1] if self.is_live else 1, self.config)
        flagged: list[CallRecord] = [
            call for call in cluster.anomalies() if self._is_in_minute(call.entry_us)
        ]
        found = [delay for delay, call in match(self.delays, flagged) if call is not None]
        others = sum(not any(delay.is_in(call) for delay in self.delays) for call in flagged)
        return Judged(len(found), len(self.clear.intersection(found)), others)

    def _is_in_minute(self, at_us: int) -> bool:
        return self.begin_us <= at_us < self.begin_us + MINUTE_US


def is_clear(delay: InjectedDelay, truth: list[InjectedDelay], runtimes: dict[str, Float64Array]) -> bool:
    """Whether a delay lies beyond the ordinary calls of its function in the whole trace."""
    own = next(values for name, values in runtimes.items() if delay.is_of(name))
    delayed = sum(one.function == delay.function for one in truth)
    # The longest calls are mostly the delayed ones: so many are left out.
    ordinary = own[: max(1, len(own) - delayed)]
    least_us = max(CLEAR_FACTOR * float(np.median(ordinary)), float(np.quantile(ordinary, CLEAR_SHARE)))
    return delay.end_us - delay.start_us >= least_us


def _copied(step: TraceStep) -> TraceStep:
    """A step that outlives the reader's buffers."""
    names = ("events", "comms", "counters", "details", "operations")
    return msgspec.structs.replace(step, **{name: getattr(step, name).copy() for name in names})


def _steps(streams: list[Stream], begin: int, end: int | None) -> list[Stream]:
    """The steps from ``begin`` to before ``end``."""
    return [
        replace(one, steps=[s for s in one.steps if begin <= s.step < (s.step + 1 if end is None else end)])
        for one in streams
    ]


def _sources(streams: list[Stream]) -> list[Source]:
    return [Source(one.program, one.rank, one.names, iter(one.steps)) for one in streams]


def learned_of(cluster: Cluster, config: AnalysisConfig) -> Model:
    """What a run leaves to the next one of its series."""
    model = Model(config.detector, config.metric, *cluster.server.learned())
    prior = merged_prior([packed_model(model)], config.detector, config.metric)
    if prior is None:
        raise ValueError("nothing was learned")
    return prior


def _learned(streams: list[Stream], config: AnalysisConfig) -> Model:
    return learned_of(Cluster(_sources(streams), 1, config), config)


def _in_common(one: Model, other: Model) -> float:
    return len(set(one.functions) & set(other.functions)) / max(1, len(one.functions))
