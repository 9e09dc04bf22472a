"""A small run with known anomalies, as the store, the frames and the page see it: 5 ranks, 60 steps."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.pathtable import PATH_TIME
from chimbuko.core.calls.record import (
    CallRecord,
    CounterStatistics,
    CounterValue,
    Message,
    Metadata,
    StackFrame,
    StepCount,
    StreamHealth,
    WindowCall,
    call_id,
)
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.kernels.paths import NONE
from chimbuko.core.sourcecensus import SourceCensus
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import schema_of
from chimbuko.monitor.sampling.nodebatch import packed
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import (
    Frame,
    FunctionModel,
    FunctionStatistics,
    PathTimes,
    RankStatistics,
    RecordBatch,
    RunStatistics,
    Seal,
)
from chimbuko.runtime.protocol.runbroker import RunKeys
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.viz.made_observations import write_observed
from tests.viz.made_samples import samples

ZERO_US = 1_700_000_000_000_000
STEP_US = 1_000_000
RANKS = 5
STEPS = 60
LOST_STEPS = {2: range(20, 24)}
"""Steps of rank 2 that were not analysed."""
ODDS = {0: 0.02, 1: 0.5, 2: 0.1, 3: 0.25, 4: 0.0}
"""How likely a rank has anomalies in a step."""
KERNEL = (
    "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<push_particles(int, "
    + "Grid<Device<Cuda, Space>> const&, " * 60
    + "double)::{lambda(int)#3}, Kokkos::RangePolicy<Kokkos::Cuda>, Kokkos::Cuda> >(int)"
)
MAIN = "main [{heat2d.c} {68,0}]"
FUNCTIONS = (
    "relax_block [{heat2d.c} {47,0}]",
    "jacobi_sweep [{heat2d.c} {51,0}]",
    "MPI_Waitall()",
    KERNEL,
)
EXPECTED_US = (2_000.0, 8_500.0, 400.0, 1_250.0)


@dataclass
class MadeRun:
    """What was made: steps by (rank, step), and the records."""

    directory: RunDirectory
    steps: list[StepCount] = field(default_factory=list)
    records: list[CallRecord] = field(default_factory=list)

    @property
    def seal(self) -> Seal:
        """Of the run's messages."""
        return Seal(self.directory.read_info().id)

    @property
    def keys(self) -> RunKeys:
        """At its broker."""
        return RunKeys(self.directory.read_info().id)

    @property
    def anomalies(self) -> list[CallRecord]:
        """The abnormal ones."""
        return [record for record in self.records if record.label is Label.ANOMALY]

    def steps_of(self, rank: int) -> list[StepCount]:
        """Steps of one rank, in order."""
        return [step for step in self.steps if step.rank == rank]

    def rank_statistics(self, until: int = STEPS) -> list[RankStatistics]:
        """Of the steps before ``until``, by the definitions and not by the store's queries."""
        return [
            _statistics(rank, [s for s in self.steps_of(rank) if s.step < until]) for rank in range(RANKS)
        ]

    def function_statistics(self, until: int = STEPS) -> list[FunctionStatistics]:
        """Of the steps before ``until``."""
        rows = []
        for number, name in enumerate(FUNCTIONS):
            found = [r for r in self.anomalies if r.function == name and r.step < until]
            mean = EXPECTED_US[number]
            lost = sum(record.severity_us for record in found)
            calls = 40 * RANKS * until + len(found)
            per_step = Counter((r.rank, r.step) for r in found).values()
            squares, cubes, fourths = (float(sum(count**power for count in per_step)) for power in (2, 3, 4))
            rows.append(
                FunctionStatistics(
                    0,
                    name,
                    calls,
                    len(found),
                    lost,
                    mean,
                    mean / 15,
                    mean / 2,
                    30 * mean,
                    1.1 * mean,
                    33 * mean,
                    1.0,
                    len(per_step),
                    squares,
                    cubes,
                    fourths,
                    min(per_step, default=0),
                    max(per_step, default=0),
                )
            )
        return rows

    def models(self, version: int) -> list[FunctionModel]:
        """One per function, of calls that took between half the usual runtime and twice as much."""
        schema = schema_of(AnalysisConfig().detector)
        models = []
        for number, name in enumerate(FUNCTIONS):
            runtimes = np.geomspace(EXPECTED_US[number] / 2, EXPECTED_US[number] * 2, 101)
            row = schema.empty(1)[0]
            row[schema.slices["exclusive_us"]] = Moments.of(runtimes).row()
            row[schema.slices["inclusive_us"]] = Moments.of(1.1 * runtimes).row()
            row[schema.slices["buckets"]] = np.histogram(runtimes, EDGES_US)[0]
            models.append(FunctionModel(version, 0, name, row.tobytes()))
        return models

    def health(self, until: int = STEPS, state: str = "ended") -> list[StreamHealth]:
        """Of the steps before ``until``."""
        rows = []
        for rank in range(RANKS):
            steps = [s for s in self.steps_of(rank) if s.step < until]
            gaps = sum(step < until for step in LOST_STEPS.get(rank, ()))
            rows.append(
                StreamHealth(
                    0,
                    rank,
                    f"node{rank // 2}",
                    state,
                    len(steps),
                    400 * len(steps),
                    19_200 * len(steps),
                    160 * len(steps),
                    sum(s.anomalies for s in steps),
                    gaps,
                    {"rows": 3} if rank == 2 and gaps else {},
                    source=SourceCensus("the recorder", 160 * (len(steps) + gaps))
                    if state == "ended"
                    else None,
                )
            )
        return rows

    def frame(self, tick: int, step: int, is_last: bool = False) -> Frame:
        """The frame after all ranks have analysed ``step``."""
        return Frame(
            tick,
            self.rank_statistics(step + 1),
            [s for s in self.steps if s.step == step],
            self.function_statistics(step + 1),
            self.health(step + 1, "ended" if is_last else "reading"),
            is_last,
        )


def make_run(
    folder: Path, state: str = "finished", stored_steps: int = STEPS, store_url: str | None = None
) -> MadeRun:
    """Make a run's folder and store, with what happened before step ``stored_steps`` in it."""
    directory = new_run(folder, ["mpirun", "-n", str(RANKS), "./heat2d"], AnalysisConfig(), store_url)
    made = MadeRun(directory)
    _happen(made)
    info = msgspec.structs.replace(
        directory.read_info(),
        state=state,
        exit_code=0 if state == "finished" else None,
        ended_us=0 if state == "running" else ZERO_US + STEPS * STEP_US,
    )
    directory.write_info(info)
    engine = open_for_writing(store_url or info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    if store_url is not None:
        directory.write_store_url(store_url)
        writer.write_folder(directory.path)
    writer.write_statistics(RunStatistics({0: "heat2d"}))
    if state != "running":
        writer.write_samples(map(packed, samples(ZERO_US, STEPS * STEP_US)))
    store(writer, made, 0, stored_steps)
    engine.dispose()
    write_observed(directory.observed_path, ZERO_US)
    return made


def store(writer: Writer, made: MadeRun, first: int, end: int) -> None:
    """Store what happened in the steps from ``first`` to before ``end``."""
    for health in made.health(end):
        rank = health.rank
        batch = RecordBatch(
            stream=f"heat2d-{rank}",
            sequence=end,
            records=pack([r for r in made.records if r.rank == rank and first <= r.step < end]),
            steps=[step for step in made.steps_of(rank) if first <= step.step < end],
            metadata=[Metadata(0, rank, 0, "Hostname", health.node)],
            health=health,
            dropped={"MPI_Waitall()": 2} if rank == 1 else {},
            counter_statistics=[_counter("Message size sent to all nodes", [8_192] * end, rank)],
            paths=_path_times(rank) if end == STEPS else None,
        )
        writer.write([batch])
    writer.write_statistics(
        RunStatistics(
            functions=made.function_statistics(end), health=made.health(end), models=made.models(end)
        )
    )


def _counter(name: str, values: list[int], rank: int) -> CounterStatistics:
    return CounterStatistics(name, *Moments.of([value + rank for value in values]).row())


def _path_times(rank: int) -> PathTimes:
    """One call of main, and 40 in it, each of which took a µs longer for each rank before."""
    rows = [(NONE, NONE, 0, 0.0), (NONE, 0, 1, 5e6), (1, 1, 40, 40 * (EXPECTED_US[1] + rank))]
    return PathTimes([MAIN, FUNCTIONS[1]], np.array(rows, PATH_TIME).tobytes())


def _happen(made: MadeRun) -> None:
    chance = random.Random(7)
    for rank in range(RANKS):
        for step in range(STEPS):
            if step in LOST_STEPS.get(rank, ()):
                continue
            count = chance.randint(1, 4) if chance.random() < ODDS[rank] else 0
            records = [_record(chance, rank, step, 10 + 20 * row, Label.ANOMALY) for row in range(count)]
            if step % 10 == 0:
                records.append(_record(chance, rank, step, 300, Label.NORMAL, step // 10 % len(FUNCTIONS)))
            made.records.extend(records)
            start = ZERO_US + step * STEP_US
            lost = sum(record.severity_us for record in records if record.label is Label.ANOMALY)
            made.steps.append(StepCount(0, rank, step, start, start + STEP_US, 160, count, lost))


def _record(
    chance: random.Random, rank: int, step: int, row: int, label: Label, number: int | None = None
) -> CallRecord:
    """A call with five neighbours on either side, two of them its children."""
    number = chance.choices(range(len(FUNCTIONS)), (6, 3, 2, 1))[0] if number is None else number
    expected = EXPECTED_US[number]
    is_anomaly = label is Label.ANOMALY
    exclusive = round(expected * (chance.uniform(3, 25) if is_anomaly else chance.uniform(0.9, 1.1)))
    child = max(20, exclusive // 8)
    event = call_id(0, rank, step, row)
    start = ZERO_US + step * STEP_US
    entry = start + row * 3_000 + rank * 37
    inclusive = exclusive + 2 * child
    end = entry + inclusive
    main, time_step = call_id(0, rank, 0, 1), call_id(0, rank, step, 2)
    stack = [
        StackFrame(event, FUNCTIONS[number], entry, end, is_anomaly),
        StackFrame(time_step, "time_step [{heat2d.c} {61,0}]", entry - 9_000, end + 9_000, False),
        StackFrame(main, MAIN, ZERO_US, 0, False),
    ]
    window = []
    for before in range(5, 0, -1):
        begin = entry - before * 1_500
        name = ("pack_row [{heat2d.c} {38,0}]", "MPI_Irecv()")[before % 2]
        window.append(
            WindowCall(call_id(0, rank, step, row - before), name, begin, begin + 1_100, time_step, 2, False)
        )
    window.append(WindowCall(event, FUNCTIONS[number], entry, end, time_step, 2, is_anomaly))
    for place in range(2):
        begin = entry + (1 + place) * inclusive // 3
        inner = call_id(0, rank, step, row + 1 + place)
        window.append(WindowCall(inner, "MPI_Send()", begin, begin + child, event, 3, False))
    for after in range(3):
        begin = end + 200 + after * 1_300
        follower = call_id(0, rank, step, row + 3 + after)
        window.append(
            WindowCall(follower, "unpack_row [{heat2d.c} {39,0}]", begin, begin + 900, time_step, 2, False)
        )
    usual = abs(exclusive - expected)
    return CallRecord(
        version=1,
        id=event,
        revision=3,
        is_final=True,
        label=label,
        program=0,
        rank=rank,
        thread=0,
        node=f"node{rank // 2}",
        function=FUNCTIONS[number],
        entry_us=entry,
        exit_us=end,
        inclusive_us=inclusive,
        exclusive_us=exclusive,
        step=step,
        step_start_us=start,
        step_end_us=start + STEP_US,
        score=usual / (expected / 15),
        severity_us=usual if is_anomaly else 0.0,
        expected_us=expected,
        spread_us=expected / 15,
        seen=200 * (step + 1),
        detector=AnalysisConfig().detector,
        incident_id="",
        depth=2,
        children=2,
        messages_count=2,
        call_stack=stack,
        window=window,
        messages=[
            Message("SEND", rank, (rank + 1) % RANKS, 99, 8_192, entry + inclusive // 3 + 5, window[6].id),
            Message(
                "SEND", rank, (rank - 1) % RANKS, 98, 8_192, entry + 2 * inclusive // 3 + 5, window[7].id
            ),
        ],
        counters=[
            CounterValue("Message size sent to all nodes", 8_192, entry + inclusive // 3 + 5, window[6].id)
        ],
        node_state=[
            CounterValue("monitoring: System load", 3 + (rank + step) % 10, start, ""),
            CounterValue("monitoring: Page faults (minor)", 100 * rank + step, start, ""),
        ],
        left_out=0,
        metrics=[],
        is_gpu=False,
        launch_id="",
        launch_stack=[],
        model_version=STEPS,
    )


def _statistics(rank: int, steps: list[StepCount]) -> RankStatistics:
    counts = Moments.of([step.anomalies for step in steps])
    return RankStatistics(
        0,
        rank,
        len(steps),
        sum(step.anomalies for step in steps),
        counts.mean,
        counts.stddev,
        min((step.anomalies for step in steps), default=0),
        max((step.anomalies for step in steps), default=0),
        counts.skewness,
        counts.kurtosis,
        sum(step.severity_us for step in steps),
        max((step.step for step in steps), default=-1),
    )
