"""What simulated ranks learn per second: tables of statistics as the streams of a node would hand them out.

Several programs that run at once, each with functions of its own, as in a coupled workflow: a node's ranks
all run the same one. Each function's runtimes are log-normal about a median of its own; one call in ten
thousand takes 5 to 20 times as long and is flagged. Each rank sends messages to four neighbours per step.
Tables are drawn beforehand, a handful per program, and taken in turn: each is what one agent's ranks learn
together in one second.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamstatistics import Learned
from chimbuko.ad.analysis.streamtelemetry import LEAST_SHARE, MOST_FUNCTIONS
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.schema import FLAGS, TableSchema
from chimbuko.runtime.protocol.telemetry import PACE, PERIODS_PER_WINDOW, TIMER

SPREAD = 0.3
"""σ of the logarithm of ordinary runtimes."""
MEDIANS_US = (10.0, 1000.0)
OUTLIER_SHARE = 1e-4
OUTLIER_FACTORS = (5.0, 20.0)
PERIOD_US = 1_000_000
START_US = 1_700_000_000_000_000
BYTES_PER_CALL = 100
"""Of the trace: ENTRY and EXIT, and a share of messages and counter values."""
NEIGHBOURS = (-16, -1, 1, 16)
"""Whom a rank sends to, as in a grid that is 16 ranks wide."""
MESSAGES_PER_STEP = 100
BYTES_PER_STEP = MESSAGES_PER_STEP << 10
"""What goes to each of them in a step."""
SCORE = 8.0
"""Of flagged calls."""
_TRAFFIC_ROW = struct.Struct("<iiiqq")
"""One row of ``TRAFFIC``."""


@dataclass(frozen=True)
class Load:
    """Who runs what, and how often."""

    agents: int
    ranks_per_agent: int
    programs: int = 5
    functions: int = 100
    """Of each program."""
    calls_per_s: float = 20.0
    """Per function and rank."""
    timed: int = 0
    """Functions of each rank whose times its agent reports every 20 s; 0 for none."""

    @property
    def name(self) -> str:
        """Who, and in what."""
        whose = f"{self.agents:,} agents of {self.ranks_per_agent} ranks"
        return f"{whose}, {self.programs * self.functions:,} functions"

    def scaled(self, part: float) -> Load:
        """With a part of the agents."""
        return replace(self, agents=round(part * self.agents))

    @property
    def ranks(self) -> int:
        """Of all programs."""
        return self.agents * self.ranks_per_agent

    @property
    def calls_per_step(self) -> int:
        """Per rank and second."""
        return round(self.functions * self.calls_per_s)

    def program_of(self, agent: int) -> int:
        """Which program an agent's ranks run."""
        return agent % self.programs

    def ranks_of(self, agent: int) -> range:
        """The ranks of an agent, numbered within its program."""
        first = agent // self.programs * self.ranks_per_agent
        return range(first, first + self.ranks_per_agent)

    def timers(self, program: int) -> dict[int, str]:
        """Functions of a program by timer id."""
        return {timer: f"void program{program}::phase{timer}(int)" for timer in range(self.functions)}


LOADS = {
    "nodes": Load(250, 40),
    "ranks": Load(10_000, 1),
    "functions": Load(250, 40, functions=1_000),
}


@dataclass(frozen=True)
class Flag:
    """Abnormal calls of one function."""

    timer: int
    calls: int
    severity_us: float


@dataclass(frozen=True)
class Second:
    """What the ranks of one agent learn in one second."""

    learned: Learned
    """Without the flags."""
    flags: list[Flag]


class Seconds:
    """Drawn seconds of each program; the same for the same seed."""

    def __init__(self, load: Load, schema: TableSchema, kinds: int, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self._load = load
        self._schema = schema
        self._kinds = kinds
        low, high = map(math.log, MEDIANS_US)
        self._medians_us = np.exp(random.uniform(low, high, (load.programs, load.functions)))
        self._paces = [self._pace(program) for program in range(load.programs)]
        self._drawn = [
            [self._draw(medians_us, random) for _ in range(kinds)] for medians_us in self._medians_us
        ]

    def of(self, program: int, turn: int) -> Second:
        """One of a program's seconds."""
        return self._drawn[program][turn % self._kinds]

    def paces(self, program: int, ranks: range, window: int) -> bytes:
        """``PACE`` rows of a window in which all ranks were equally fast."""
        of_rank = self._paces[program]
        paces = np.tile(of_rank, len(ranks))
        paces["rank"] = np.repeat(np.array(ranks), len(of_rank))
        paces["window"] = window
        return paces.tobytes()

    def _pace(self, program: int) -> npt.NDArray[np.void]:
        """Paces of one rank in the functions that take the most time."""
        medians_us = self._medians_us[program]
        calls = round(self._load.calls_per_s * PERIODS_PER_WINDOW)
        functions = np.flatnonzero(medians_us > LEAST_SHARE * medians_us.sum())
        functions = functions[np.argsort(-medians_us[functions])][:MOST_FUNCTIONS]
        paces = np.zeros(len(functions), PACE)
        paces["program"], paces["calls"], paces["function"] = program, calls, functions
        paces["time_us"] = calls * medians_us[functions]
        return paces

    def _draw(self, medians_us: Float64Array, random: np.random.Generator) -> Second:
        schema, load = self._schema, self._load
        table = schema.empty(load.functions)
        counts = random.poisson(load.calls_per_s * load.ranks_per_agent, load.functions)
        flags = []
        for timer, (count, median_us) in enumerate(zip(counts.tolist(), medians_us.tolist(), strict=True)):
            exclusive_us = np.maximum(np.rint(random.lognormal(np.log(median_us), SPREAD, count)), 1.0)
            late_us = median_us * random.uniform(*OUTLIER_FACTORS, random.binomial(count, OUTLIER_SHARE))
            exclusive_us[: len(late_us)] = late_us
            inclusive_us = exclusive_us + np.rint(random.lognormal(np.log(2 * median_us), SPREAD, count))
            row = table[timer]
            row[schema.slices["exclusive_us"]] = moments_row(exclusive_us)
            row[schema.slices["inclusive_us"]] = moments_row(inclusive_us)
            buckets = np.clip(np.searchsorted(EDGES_US[1:], exclusive_us, "right"), 0, BUCKETS - 1)
            row[schema.slices["buckets"]] = np.bincount(buckets, minlength=BUCKETS)
            if len(late_us):
                flags.append(Flag(timer, len(late_us), float((late_us - median_us).sum())))
        timers = np.flatnonzero(counts)
        return Second(Learned(timers, table[timers]), flags)


def flagged(schema: TableSchema, flag: Flag) -> Learned:
    """The flagged calls alone, as a stream hands them out."""
    table = schema.empty(1)
    table[0, [schema.slices[name].start for name in FLAGS]] = flag.calls, flag.severity_us, SCORE
    return Learned(np.array([flag.timer]), table)


def traffic(load: Load, program: int, ranks: range) -> bytes:
    """``TRAFFIC`` rows of one step of some ranks."""
    of_program = load.ranks // load.programs
    rows = [
        _TRAFFIC_ROW.pack(program, rank, (rank + away) % of_program, MESSAGES_PER_STEP, BYTES_PER_STEP)
        for rank in ranks
        for away in NEIGHBOURS
    ]
    return b"".join(rows)


def rank_timers(load: Load, program: int, ranks: range, periods: int) -> bytes:
    """``TIMER`` rows of what some ranks did in so many seconds; each function takes 10 µs a call."""
    rows = np.zeros((len(ranks), load.timed), TIMER)
    rows["program"], rows["calls"] = program, periods * load.calls_per_s
    rows["rank"], rows["function"] = np.array(ranks)[:, None], np.arange(load.timed)
    rows["inclusive_us"] = rows["exclusive_us"] = 10.0 * rows["calls"]
    return rows.tobytes()


def moments_row(values: Float64Array) -> Float64Array:
    """Moments of an array of values, f8[7]."""
    if not len(values):
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.inf, -np.inf])
    mean = values.mean()
    centred = values - mean
    sums = [(centred**power).sum() for power in (2, 3, 4)]
    return np.array([len(values), mean, *sums, values.min(), values.max()])


def step_count(
    load: Load, program: int, rank: int, step: int, anomalies: int, severity_us: float
) -> StepCount:
    """What the analysis of one step of one rank counted."""
    start_us = START_US + step * PERIOD_US
    calls = load.calls_per_step
    return StepCount(program, rank, step, start_us, start_us + PERIOD_US, calls, anomalies, severity_us)


def health(load: Load, program: int, rank: int, node: str, steps: int, anomalies: int) -> StreamHealth:
    """Running totals of one stream after so many steps."""
    calls = steps * load.calls_per_step
    size_bytes = calls * BYTES_PER_CALL
    return StreamHealth(
        program, rank, node, "reading", steps, 2 * calls, size_bytes, calls, anomalies, 0, {}, None,
        load.calls_per_step * BYTES_PER_CALL,
    )  # fmt: skip
