"""One followed stream with all that is kept of it, a stand-in for its agent, and what came out in the end."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.generate import Shape, SyntheticTrace
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Outbox, Phase
from chimbuko.ad.handoff.namesfile import read_names
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.handoff.spool import SpoolReader
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.calls.pathtable import PathTable
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import joined
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics import flaggedsteps
from chimbuko.core.traceschema import EventType, StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import NO_EPOCH, RecordBatch
from tests.ad.handed_on import rows_of
from tests.reference.paths import paths_of

RANK = 0
SHAPE = Shape(functions=12, depth=4, threads=3, recursion=0.1)
CONFIG = AnalysisConfig(
    detector="sstd", min_anomaly_us=0, window_calls=3, final_after_steps=3, period_us=200_000
)


@dataclass
class MadeStream:
    """A stream whose last step ends its program, as the main thread's outermost call."""

    steps: list[TraceStep]
    names: list[StreamNames]
    """As of each step."""


def made_stream(steps: int, rows: int = 300, seed: int = 1) -> MadeStream:
    """Calls, messages and counters on three threads; functions, a counter and metadata come late."""
    trace = SyntheticTrace(rows, seed=seed, outlier_share=0.03, shape=SHAPE)
    made = MadeStream([], [])
    for number in range(steps):
        step = trace.next_step()
        # As in TAU, a name comes with the first row that needs it.
        first_counter = 0 if number >= steps // 2 else len(step.counters)
        arrays = (step.events.copy(), step.comms.copy(), step.counters[first_counter:].copy())
        made.steps.append(TraceStep(number, *arrays))
        names = StreamNames(
            timers=trace.names.timers | {1000 + n: f"function of step {n}" for n in range(0, number + 1, 5)},
            counters=dict(trace.names.counters),
            event_types=dict(trace.names.event_types),
            program=trace.names.program,
            metadata={(RANK, 0, f"of step {n}"): "x" for n in range(0, number + 1, 5)},
        )
        if number < steps // 2:
            names.counters.pop(1)
        made.names.append(names)
    made.steps[-1] = _with_exits(made)
    return made


def _with_exits(made: MadeStream) -> TraceStep:
    """The last step, in which all calls of the main thread end."""
    open_calls: list[int] = []
    for step in made.steps:
        for _, _, thread, kind, timer, _ in step.events.tolist():
            if thread == 0 and kind == EventType.ENTRY:
                open_calls.append(timer)
            elif thread == 0:
                open_calls.pop()
    last = made.steps[-1]
    time = int(last.events[:, 5].max())
    exits = [[0, RANK, 0, EventType.EXIT, timer, time + n] for n, timer in enumerate(reversed(open_calls), 1)]
    return TraceStep(
        last.step, np.concatenate([last.events, np.array(exits, np.uint64)]), last.comms, last.counters
    )


def write_step(writer: StreamWriter, made: MadeStream, number: int) -> None:
    step = made.steps[number]
    writer.write_step(step.events, step.comms, step.counters, made.names[number])


def write_whole(path: Path, made: MadeStream) -> None:
    with StreamWriter(path, "BP5") as writer:
        for number in range(len(made.steps)):
            write_step(writer, made, number)


def spec_of(
    folder: Path,
    stream: Path,
    config: AnalysisConfig = CONFIG,
    transport: Transport = Transport.FILES,
    kept_trace: str = "",
    rank: int = RANK,
) -> StreamProcessSpec:
    folder.mkdir(exist_ok=True)
    return StreamProcessSpec(
        key=f"0:{rank}",
        path=str(stream),
        transport=transport,
        program=0,
        rank=rank,
        node="node1",
        box=str(folder / "box"),
        spool=str(folder / "spool"),
        names=str(folder / "names"),
        open_calls=str(folder / "open-calls"),
        looks=str(folder / "looks"),
        recorder=str(folder / "recorder"),
        config=config,
        kept_trace=kept_trace,
    )


@dataclass
class Outcome:
    """Everything that came out of one stream."""

    records: dict[str, object]
    steps: list[StepCount]
    metadata: Counter[tuple[int, int, str, str]]
    health: StreamHealth
    counters: list[object]
    dropped: dict[str, int]
    names: StreamNames
    taken_steps: list[StepCount]
    traffic: dict[tuple[int, ...], list[float]]
    paces: dict[tuple[int, ...], list[float]]
    flagged_steps: list[tuple[float, ...]]
    learned: dict[int, list[float]]
    paths: dict[tuple[int, ...], tuple[float, ...]]


class Agent:
    """Takes what the processes of a stream leave, when it is told to; in lockstep gives the model back."""

    def __init__(self, spec: StreamProcessSpec) -> None:
        self._spec = spec
        self._schema = make_detector(spec.config).schema
        self.box = ExchangeBox(Path(spec.box), self._schema, spec.program, spec.rank)
        self._gathered = self._schema.empty(0)
        self._paths = PathTable()
        self._steps: list[StepCount] = []
        self._traffic: list[tuple[float, ...]] = []
        self._paces: list[tuple[float, ...]] = []
        self._flagged = flaggedsteps.empty(0)
        self._sent_epoch = NO_EPOCH
        self._version = 0

    @property
    def is_over(self) -> bool:
        return self.box[Cell.PHASE] in (Phase.ENDED, Phase.BROKEN)

    def tick(self) -> None:
        """In lockstep: when the stream has closed an epoch, take what it learned and let it go on."""
        closed = self.box[Cell.CLOSED_EPOCH]
        if closed <= self._sent_epoch:
            return
        generation = self.box[Cell.GENERATION]
        if self.take():
            self._version += 1
            while not self.box.put_model(self._version, closed, generation, self._gathered):
                pass
            self._sent_epoch = closed

    def take(self) -> bool:
        """Take what there is; false if the stream's process is at it."""
        outbox = self.box.take()
        if outbox is None:
            return False
        self._add(outbox)
        return True

    def _add(self, outbox: Outbox) -> None:
        timers = outbox.learned.timers
        if len(timers):
            self._gathered = self._schema.grown(self._gathered, int(timers.max()) + 1)
            self._schema.merge(self._gathered, timers, outbox.learned.table)
        self._steps += outbox.steps
        self._paths.add(outbox.paths)
        self._traffic += np.asarray(outbox.telemetry.traffic).tolist()
        self._paces += np.asarray(outbox.telemetry.paces).tolist()
        self._flagged = flaggedsteps.merged(self._flagged, outbox.telemetry.flagged_steps)

    def outcome(self) -> Outcome:
        """At the end."""
        while not self.take():
            pass
        spec = self._spec
        frames = SpoolReader(Path(spec.spool)).read(1 << 62)
        assert [sequence for sequence, _ in frames] == list(range(1, len(frames) + 1))
        batches = [msgspec.msgpack.decode(frame, type=RecordBatch) for _, frame in frames]
        return Outcome(
            records=rows_of(joined([batch.records for batch in batches])),
            steps=[step for batch in batches for step in batch.steps],
            metadata=Counter((m.rank, m.thread, m.key, m.value) for b in batches for m in b.metadata),
            health=batches[-1].health,
            counters=[msgspec.structs.astuple(one) for one in batches[-1].counter_statistics],
            dropped=batches[-1].dropped,
            names=read_names(Path(spec.names)),
            taken_steps=self._steps,
            traffic=_added_up(self._traffic, 3),
            paces=_added_up(self._paces, 4),
            flagged_steps=self._flagged.tolist(),
            learned={timer: row.tolist() for timer, row in enumerate(self._gathered) if row[0]},
            paths=paths_of(self._paths.rows),
        )


def _added_up(rows: list[tuple[float, ...]], key_columns: int) -> dict[tuple[int, ...], list[float]]:
    """Sums of the columns behind the key."""
    sums: dict[tuple[int, ...], list[float]] = {}
    for row in rows:
        key = tuple(int(value) for value in row[:key_columns])
        known = sums.get(key, [0.0] * (len(row) - key_columns))
        sums[key] = [a + b for a, b in zip(known, row[key_columns:], strict=True)]
    return sums


def assert_same(one: Outcome, other: Outcome, is_exact: bool = False) -> None:
    """All that is counted is the same; sums of sums to rounding, as their order may be
    another, unless they have to be exact."""
    for what in Outcome.__dataclass_fields__:
        ours, theirs = getattr(one, what), getattr(other, what)
        assert ours == theirs if is_exact else is_close(ours, theirs), (what, ours, theirs)


def is_close(one: object, other: object) -> bool:
    """Whether two values, or all in them, are the same, numbers with a fraction to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(one, msgspec.Struct):
        one, other = msgspec.structs.astuple(one), msgspec.structs.astuple(other)  # type: ignore[arg-type]
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_close, one, other))
    return one == other
