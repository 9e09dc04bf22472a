"""A recorded program whose steps can be told apart in its statistics, and what they should add up to.

In each step each rank calls, twice, a function that is named after rank and step. The first call of a
function teaches nothing and the second one does: the statistics show which steps are in them, how often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.detectors import make_detector
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.arrays import Float64Array
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model
from chimbuko.core.traceschema import StreamNames, TraceStep

PROGRAM = "marked"
RANKS = 4
STEPS = 100
STEP_US = 100_000
FUNCTIONS = {0: "iterate", 1: "solve", 2: "norm", 3: "MPI_Waitall()"}
MEANS_US = {1: 150.0, 2: 60.0, 3: 30.0}
ROUNDS = 120
"""Per step: together 48,000 calls of each function, so that statistics of the later ones are held back."""
DELAYED_SHARE = 0.001
FIRST_MARK = 10

Steps = dict[int, list[int]]
"""Rank to steps, ascending."""


def mark_of(rank: int, step: int) -> str:
    """Name of the function that is called in one step of one rank only."""
    return f"step {step} of rank {rank}"


def write_marked(folder: Path, steps: int = STEPS) -> str:
    """Record the program; the pattern of its streams."""
    for rank in range(RANKS):
        random = np.random.default_rng(rank)
        names = StreamNames(timers=dict(FUNCTIONS), program=PROGRAM)
        with StreamWriter(folder / f"tau-metrics-{PROGRAM}-{rank}.bp", "BP4") as writer:
            for step in range(steps):
                names.timers[FIRST_MARK + step] = mark_of(rank, step)
                rows = _rows_of(rank, step, random)
                # All but the last one leave a call open.
                rows = rows[:-1] if step == steps - 1 else rows
                empty = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
                writer.write_step(np.array(rows, np.uint64), *empty, names)
    return str(folder / "*.bp")


def _rows_of(rank: int, step: int, random: np.random.Generator) -> list[list[int]]:
    """One step, at the end of which a call of ``iterate`` stays open."""
    time = STEP_US * (step + 1)
    rows = [] if step == 0 else [[0, rank, 0, 1, 0, time]]
    for _ in range(2):
        rows += [[0, rank, 0, kind, FIRST_MARK + step, time + 10 * kind] for kind in (0, 1)]
        time += 20
    for _ in range(ROUNDS):
        rows.append([0, rank, 0, 0, 0, time])
        for timer, mean_us in MEANS_US.items():
            runtime_us = random.gamma(8.0, mean_us / 8.0)
            runtime_us *= random.uniform(20.0, 100.0) if random.random() < DELAYED_SHARE else 1.0
            rows += [[0, rank, 0, 0, timer, time], [0, rank, 0, 1, timer, time + int(runtime_us)]]
            time += int(runtime_us) + 1
        rows.append([0, rank, 0, 1, 0, time])
    return [*rows, [0, rank, 0, 0, 0, time]]


@dataclass(frozen=True)
class Learned:
    """Statistics of all functions by name, f8[2, 7]: moments of exclusive and inclusive runtimes."""

    functions: dict[str, Float64Array]

    @classmethod
    def of_model(cls, model: Model) -> Learned:
        """What a run has left."""
        places = model.schema.slices
        table = np.stack([model.table[:, places[name]] for name in ("exclusive_us", "inclusive_us")], axis=1)
        rows = zip(model.functions, table, strict=True)
        return cls({name: row for (_, name), row in rows if row[0, 0] > 0})

    @property
    def steps(self) -> Steps:
        """The steps that are in them; each of them once, or this fails."""
        found: Steps = {rank: [] for rank in range(RANKS)}
        for name, row in self.functions.items():
            if mark := re.fullmatch(r"step (\d+) of rank (\d+)", name):
                assert row[0, 0] == 1.0, f"{name} counts {row[0, 0]:g} times"
                found[int(mark[2])].append(int(mark[1]))
        return {rank: sorted(steps) for rank, steps in found.items()}

    def assert_same(self, expected: Learned) -> None:
        """Counts and extremes exactly; mean and M2 to 1e-12; M3, M4 to 1e-9 of n σ³, n σ⁴."""
        assert self.functions.keys() == expected.functions.keys()
        for name, exact in expected.functions.items():
            for found, row in zip(self.functions[name], exact, strict=True):
                n, _, m2 = row[:3]
                sigma_us = np.sqrt(m2 / n)
                tolerances = [0.0, 1e-12 * row[1], 1e-12 * m2, 1e-9 * n * sigma_us**3, 1e-9 * n * sigma_us**4]
                differences = np.abs(found - row)
                assert (differences <= [*tolerances, 0.0, 0.0]).all(), (name, found, row)


def learned_offline(folder: Path, steps: Steps, config: AnalysisConfig) -> Learned:
    """What one process learns of these steps and of no others: the others are gaps."""
    schema = make_detector(config).schema
    gathered: dict[str, Float64Array] = {}
    for rank, wanted in steps.items():
        analysis = StreamAnalysis(StreamIdentity(0, rank, ""), config)
        with StreamReader(folder / f"tau-metrics-{PROGRAM}-{rank}.bp", "BPFile") as reader:
            while isinstance(step := reader.next_step(1.0), TraceStep):
                if step.step not in wanted:
                    continue
                analysis.analyse(step, reader.names)
            _merge(gathered, analysis, reader.names, config)
    rows = list(gathered.values())
    table = np.concatenate(rows) if rows else schema.empty(0)
    functions = [(PROGRAM, name) for name in gathered]
    return Learned.of_model(Model(config.detector, config.metric, functions, table))


def _merge(
    gathered: dict[str, Float64Array], analysis: StreamAnalysis, names: StreamNames, config: AnalysisConfig
) -> None:
    schema = make_detector(config).schema
    learned = analysis.hand_out(0).learned
    for timer, row in zip(learned.timers.tolist(), learned.table, strict=True):
        into = gathered.setdefault(names.timers[timer], schema.empty(1))
        schema.merge(into, [0], row[np.newaxis])


def all_steps(steps: int = STEPS) -> Steps:
    """Of the whole program."""
    return {rank: list(range(steps)) for rank in range(RANKS)}
