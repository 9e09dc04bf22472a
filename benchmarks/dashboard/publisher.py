"""Publishes frames as the parameter server does, for a run whose ranks each end a step per second.

Run: python -m benchmarks.dashboard.publisher --run-dir DIR --seconds S [--stored]

The broker's address comes by the environment. Ranks go on from the steps that the store holds; a quarter of
them ends a step in each quarter of a second, and statistics of ranks are those of the server's own code. With
``--stored`` the steps reach the store, too. One line of JSON says that it begins, and one at the end what was
reported; the run has ended then.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from sqlalchemy import select

from benchmarks.dashboard.history import PROGRAM
from benchmarks.madestore import CALLS_PER_STEP, LOST_US, PERIOD_US, START_US
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.statistics.moments import Moments
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import STEP_HISTOGRAMS
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.schedule import TICK_S
from chimbuko.pserver.server import KEPT_BYTES
from chimbuko.pserver.state.rankstatistics import Ranks, SavedRanks
from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import (
    PAYLOAD,
    Frame,
    FunctionStatistics,
    RankStatistics,
    RecordBatch,
    RunStatistics,
)
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory

TICKS = round(1 / TICK_S)
ODDS = 1 / 360
"""Of a step to have an anomaly, as in the history."""
TICKS_PER_WHOLE = 4
"""All functions are reported in each fourth frame."""


@dataclass
class Application:
    """Ranks and functions as they go on; health in order of rank."""

    ranks: Ranks
    health: list[StreamHealth]
    functions: list[FunctionStatistics]
    tick: int = 0
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(2))

    @classmethod
    def of(cls, run: RunDirectory) -> Application:
        """As the store knows them."""
        with open_run(run) as provenance:
            health, functions = provenance.health(), provenance.function_statistics()
        engine = open_for_reading(run.read_info().store_url)
        try:
            with engine.connect() as connection:
                cells = connection.execute(select(*STEP_HISTOGRAMS.c)).all()
        finally:
            close(engine)
        numbers = np.array([(cell.rank, cell.anomalies, cell.steps, cell.last_step) for cell in cells])
        return cls(Ranks.restored(_saved(numbers.reshape(-1, 4), len(health))), health, functions)

    def advance(self) -> tuple[Frame, list[StepCount]]:
        """The next part of the ranks ends a step: the frame that reports it, and the steps."""
        part = slice(self.tick % TICKS, None, TICKS)
        self.tick += 1
        self.health[part] = [
            msgspec.structs.replace(
                one, steps=one.steps + 1, rows=one.rows + 2 * CALLS_PER_STEP, state="reading"
            )
            for one in self.health[part]
        ]
        anomalies = (self.random.random(len(self.health[part])) < ODDS).astype(int).tolist()
        steps = [_step(one, n) for one, n in zip(self.health[part], anomalies, strict=True)]
        rows = np.array([row for row, _ in self.ranks.count(steps)], np.int64)
        statistics = self.ranks.statistics(rows)
        return Frame(
            self.tick, statistics, steps, self._reported(sum(anomalies)), self.health[part], False
        ), steps

    def end(self) -> Frame:
        """The last frame, with all there is."""
        self.tick += 1
        self.health = [msgspec.structs.replace(one, state="ended") for one in self.health]
        return Frame(self.tick, self.statistics(), [], self.functions, self.health, True)

    def statistics(self) -> list[RankStatistics]:
        """Of all ranks."""
        return self.ranks.statistics(np.arange(len(self.ranks)))

    def _reported(self, anomalies: int) -> list[FunctionStatistics]:
        """Functions as they are after so many more anomalies: those that have one, or all."""
        flagged = self.random.integers(0, len(self.functions), anomalies).tolist()
        for number in flagged:
            one = self.functions[number]
            self.functions[number] = msgspec.structs.replace(
                one, calls=one.calls + 1, anomalies=one.anomalies + 1, severity_us=one.severity_us + LOST_US
            )
        if self.tick % TICKS_PER_WHOLE == 1:
            return list(self.functions)
        return [self.functions[number] for number in sorted(set(flagged))]


def _step(health: StreamHealth, anomalies: int) -> StepCount:
    """The newest step of a rank."""
    step = health.steps - 1
    start_us = START_US + step * PERIOD_US
    lost_us = LOST_US * anomalies
    return StepCount(
        PROGRAM, health.rank, step, start_us, start_us + PERIOD_US, CALLS_PER_STEP, anomalies, lost_us
    )


def _saved(cells: np.ndarray[tuple[int, int], np.dtype[np.int64]], ranks: int) -> SavedRanks:
    """As the server would have saved it: from (rank, anomalies, steps with so many, last such step)."""
    per_step, last_steps = [], []
    for rank in range(ranks):
        _, anomalies, steps, last = cells[cells[:, 0] == rank].T
        per_step.append(Moments.of(np.repeat(anomalies, steps).astype(float)).row())
        last_steps.append(int(last.max(initial=-1)))
    moments = np.array(per_step)
    severity_us = LOST_US * moments[:, 0] * moments[:, 1]
    keys = [(PROGRAM, rank) for rank in range(ranks)]
    return SavedRanks(keys, moments.tobytes(), severity_us.tobytes(), last_steps)


@contextmanager
def stored(run: RunDirectory, is_wanted: bool) -> Iterator[Writer | None]:
    """What writes the run's store, where it is wanted."""
    if not is_wanted:
        yield None
        return
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    try:
        yield Writer(engine, info.id)
    finally:
        close(engine)


def publish(run: RunDirectory, broker_url: str, seconds: float, is_stored: bool) -> None:
    """Publish until the time is over or somebody asks this process to end."""
    should_stop = StopSignal()
    application = Application.of(run)
    broker = RunBroker.connect(broker_url, run.read_info().id)
    kept = 0
    with stored(run, is_stored) as writer:
        say_ready(ranks=len(application.health))
        began_s = time.monotonic()
        latest_s = 0.0
        # All ranks end with the same step.
        while application.tick % TICKS or not (application.tick >= TICKS * seconds or should_stop()):
            due_s = began_s + application.tick * TICK_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            frame, steps = application.advance()
            if writer is not None:
                _store(writer, application, steps)
            payload = broker.seal.encode(frame)
            kept = kept or max(1, KEPT_BYTES // len(payload))
            broker.client.xadd(broker.keys.frames, {PAYLOAD: payload}, maxlen=kept)
            latest_s = max(latest_s, time.monotonic() - due_s - TICK_S)
        last = application.end()
        if writer is not None:
            writer.write_statistics(RunStatistics(health=last.health, functions=last.functions))
        ended_us = START_US + max(one.steps for one in last.health) * PERIOD_US
        broker.client.xadd(broker.keys.frames, {PAYLOAD: broker.seal.encode(last)}, maxlen=kept)
    run.write_info(msgspec.structs.replace(run.read_info(), state="finished", exit_code=0, ended_us=ended_us))
    anomalies = sum(rank.total for rank in last.ranks)
    say_ready(ticks=application.tick, anomalies=anomalies, most_late_s=round(latest_s, 3))


def _store(writer: Writer, application: Application, steps: list[StepCount]) -> None:
    batches = []
    for step in steps:
        health = application.health[step.rank]
        batches.append(RecordBatch(f"{PROGRAM}:{step.rank}", health.steps, pack([]), [step], [], health, {}))
    writer.write(batches)


def main() -> None:
    """Publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--stored", action="store_true", help="steps reach the store, too")
    options = parser.parse_args()
    publish(RunDirectory(options.run_dir), os.environ[BROKER_VARIABLE], options.seconds, options.stored)


if __name__ == "__main__":
    main()
