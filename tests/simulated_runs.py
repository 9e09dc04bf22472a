"""Runs whose runtimes are drawn by chance, in the store as the parameter server and the writer leave them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from chimbuko.provenance.compare.runcomparison import NAMED, Comparison
from chimbuko.provenance.compare.wording import cost_changes
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.state.functions import Functions
from chimbuko.pserver.state.modelversions import MODEL_GROWTH
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics, RunStatistics
from chimbuko.runtime.protocol.telemetry import FLAGGED
from chimbuko.runtime.runs.directory import RunDirectory, new_run

Draw = Callable[[np.random.Generator, int], Float64Array]
"""Runtimes of so many calls, in µs."""

TICKS = 40
PREEMPTED_US = 4000.0
"""Time that a preempted call loses on average."""
PROGRAM = "heat2d"
_COLUMNS = BUCKETED_PROFILE.slices


@dataclass(frozen=True)
class Noise:
    """What a machine adds; standard deviations of logarithms of runtimes."""

    run: float = 0.0
    """Of all functions, from run to run."""
    walk: float = 0.0
    """Of all functions, over a whole run: a random walk."""
    function: float = 0.0
    """Of each function, from run to run."""
    function_walk: float = 0.0
    """Of each function, over a whole run."""
    preempted: float = 0.0
    """Share of calls that lose a few ms."""


@dataclass(frozen=True)
class SimulatedFunction:
    """A function of the program."""

    name: str
    draw: Draw
    calls_per_tick: int = 100
    growth: float = 0.0
    """Share by which its calls take longer at the end of the run than at its beginning."""
    is_once: bool = False
    """Whether it is called in the first tick only."""


@dataclass(frozen=True)
class SimulatedRun:
    """What a run differs by."""

    seed: int
    noise: Noise = Noise()
    slower: Mapping[str, float] = field(default_factory=dict)
    """Function to the factor by which its calls take longer."""
    anomalies: Mapping[str, int] = field(default_factory=dict)
    """Function to how many of its calls are abnormal."""
    metric: str = "exclusive"


def log_normal(median_us: float, sigma: float) -> Draw:
    """One mode."""
    return lambda random, count: median_us * np.exp(sigma * random.standard_normal(count))


def two_modes(median_us: float, sigma: float) -> Draw:
    """Half of the calls take twice as long."""
    draw = log_normal(median_us, sigma)
    return lambda random, count: draw(random, count) * random.choice((1.0, 2.0), count)


def delayed(draw: Draw, share: float, delay_us: float) -> Draw:
    """A share of the calls takes so much longer."""
    return lambda random, count: draw(random, count) + delay_us * (random.random(count) < share)


def half_longer(draw: Draw, share: float) -> Draw:
    """Return a law by which every other call takes longer."""
    return lambda random, number: draw(random, number) * np.where(np.arange(number) % 2, 1.0 + share, 1.0)


def make_run(folder: Path, functions: Sequence[SimulatedFunction], run: SimulatedRun) -> RunDirectory:
    """Let it run, and store it."""
    directory = new_run(folder, ["mpirun", "-n", "2", "./heat2d"], AnalysisConfig(metric=run.metric), None)
    learned, models = _learn(functions, run)
    info = msgspec.structs.replace(directory.read_info(), state="finished")
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write_statistics(RunStatistics({0: PROGRAM}))
    statistics = learned.statistics(learned.called())
    writer.write_statistics(RunStatistics(functions=statistics, health=_health(statistics), models=models))
    engine.dispose()
    return directory


def says_a_difference(found: Comparison) -> bool:
    """Whether two runs, or two sides of several, are said to differ in anything."""
    return (
        any(shift.decisive.verdict in NAMED for shift in [*found.functions, *found.paths])
        or any(shift.has_more_anomalies for shift in found.functions)
        or any(rank.has_more_anomalies for rank in found.ranks)
        or found.total.differs
        or found.whole.verdict in NAMED
        or any(row.verdict in NAMED for row in found.times)
        or bool(cost_changes(found))
        or bool(found.new or found.vanished)
    )


def _learn(
    functions: Sequence[SimulatedFunction], run: SimulatedRun
) -> tuple[Functions, list[FunctionModel]]:
    random = np.random.default_rng(run.seed)
    machine = _walk(random, run.noise.run, run.noise.walk)
    learned = Functions(BUCKETED_PROFILE)
    numbers = np.array([learned.number(0, function.name) for function in functions])
    own = [_walk(random, run.noise.function, run.noise.function_walk) for _ in functions]
    models: list[FunctionModel] = []
    for tick in range(TICKS):
        rows = BUCKETED_PROFILE.empty(len(functions))
        for at, function in enumerate(functions):
            if function.is_once and tick:
                continue
            factor = run.slower.get(function.name, 1.0) * np.exp(machine[tick] + own[at][tick])
            factor *= 1.0 + function.growth * tick / (TICKS - 1)
            runtimes_us = factor * function.draw(random, function.calls_per_tick)
            lost = random.random(function.calls_per_tick) < run.noise.preempted
            runtimes_us[lost] += random.exponential(PREEMPTED_US, int(lost.sum()))
            # Clocks count whole µs.
            rows[at] = _row(np.floor(runtimes_us + random.random(function.calls_per_tick)))
        learned.merge(numbers, BUCKETED_PROFILE.pack(rows))
        learned.end_epoch()
        reported = learned.grown(numbers, MODEL_GROWTH, tick == TICKS - 1)
        models += [
            FunctionModel(tick + 1, 0, learned.names[number].name, row.tobytes())
            for number, row in zip(
                reported, np.hstack([learned.judged_by(reported), learned.counted(reported)]), strict=True
            )
        ]
    flagged = np.zeros(len(functions), FLAGGED)
    flagged["anomalies"] = [run.anomalies.get(function.name, 0) for function in functions]
    flagged["severity_us"] = 5000.0 * flagged["anomalies"]
    learned.flag(numbers, flagged)
    return learned, models


def _walk(random: np.random.Generator, start: float, whole: float) -> Float64Array:
    """f8[TICKS]: where it is, after it began somewhere and went on by chance."""
    steps = whole / np.sqrt(TICKS) * random.standard_normal(TICKS)
    walk: Float64Array = start * random.standard_normal() + np.cumsum(steps)
    return walk


def _row(runtimes_us: Float64Array) -> Float64Array:
    """What calls add to the table, f8[width]."""
    row = BUCKETED_PROFILE.empty(1)[0]
    row[_COLUMNS["exclusive_us"]] = row[_COLUMNS["inclusive_us"]] = Moments.of(runtimes_us).row()
    buckets = np.maximum(np.searchsorted(EDGES_US, runtimes_us, "right") - 1, 0)
    row[_COLUMNS["buckets"]] = np.bincount(buckets, minlength=BUCKETS)
    return row


def _health(statistics: Sequence[FunctionStatistics]) -> list[StreamHealth]:
    """Of two ranks that share calls and anomalies as they come."""
    calls = sum(found.calls for found in statistics)
    anomalies = sum(found.anomalies for found in statistics)
    return [
        StreamHealth(
            0,
            rank,
            "node0",
            "ended",
            TICKS,
            2 * calls,
            48 * calls,
            (calls + rank) // 2,
            (anomalies + rank) // 2,
            0,
            {},
        )
        for rank in range(2)
    ]
