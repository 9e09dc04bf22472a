"""A large made-up store: anomalies of many ranks, functions, nodes and steps, each with ten neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.record import CallRecord, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import HEAD, MEMBER, PackedRecords, pack
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.runs.directory import RunInfo

RUN_ID = "made up"
PERIOD_US = 1_000_000
START_US = 1_700_000_000_000_000
PATHS = 400
DEPTH = 10
NORMAL_SHARE = 0.1
GPU_SHARE = 0.01
BATCHES_AT_ONCE = 64
CALLS_PER_STEP = 1_000
LOST_US = 5e3
"""By each abnormal call, as steps count it."""

Counts = npt.NDArray[np.int64]


class MadeStore(msgspec.Struct, frozen=True):
    """How large it is."""

    anomalies: int = 1_000_000
    ranks: int = 1_000
    ranks_per_node: int = 40
    functions: int = 200
    steps: int = 3_600

    def write(self, writer: Writer, template: CallRecord) -> None:
        """Write all of it; ``template`` is what calls are like in all that does not differ."""
        run = RunInfo(
            RUN_ID, RUN_ID, [], "running", START_US, 0, None, "node", "sqlite:////x", AnalysisConfig(), ""
        )
        writer.write_run(run)
        batches: list[RecordBatch] = []
        for rank, records, anomalies in self.records(template):
            batches.append(self._batch(rank, records, anomalies))
            if len(batches) == BATCHES_AT_ONCE:
                writer.write(batches)
                batches = []
        writer.write(batches)

    def function_name(self, number: int) -> str:
        """Name of a function."""
        return f"void Solver::stage_{number}(double *, int) [{{solver.cpp}} {{{number},1}}]"

    def records(self, template: CallRecord) -> Iterator[tuple[int, PackedRecords, Counts]]:
        """Each rank, the records of its calls, and the anomalies of each of its steps, i8[steps]."""
        random = np.random.default_rng(1)
        # Few functions have most anomalies, as in a real run.
        weights = 1 / np.arange(1, self.functions + 1)
        paths = random.choice(self.functions, (PATHS, DEPTH)).astype(np.int32)
        path_weights = weights[paths[:, 0]] / weights[paths[:, 0]].sum()
        packed = pack([template])
        # Ranks differ, so that there is one ranking of them.
        counts = random.multinomial(self.anomalies, np.full(self.ranks, 1 / self.ranks))
        for rank, count in enumerate(counts.tolist()):
            records = round(count * (1 + NORMAL_SHARE))
            chosen = random.choice(PATHS, records, p=path_weights)
            yield rank, *self._records(packed, paths[chosen], np.arange(records) < count, random)

    def health(self, rank: int, anomalies: int) -> StreamHealth:
        """Totals of a rank's stream at its end."""
        node = f"node{rank // self.ranks_per_node:04d}"
        calls = CALLS_PER_STEP * self.steps
        size = self.steps, 2 * calls, 96 * calls, calls
        return StreamHealth(0, rank, node, "ended", *size, anomalies, 0, {})

    def _records(
        self,
        template: PackedRecords,
        paths: npt.NDArray[np.int32],
        is_anomaly: npt.NDArray[np.bool_],
        random: np.random.Generator,
    ) -> tuple[PackedRecords, Counts]:
        count = len(paths)
        heads = np.repeat(np.frombuffer(template.heads, HEAD), count)
        steps = np.sort(random.integers(0, self.steps, count))
        heads["step"] = heads["begin_step"] = steps
        heads["begin_row"] = np.arange(count)
        heads["function"] = paths[:, 0]
        heads["is_anomaly"] = is_anomaly
        heads["is_gpu"] = random.random(count) < GPU_SHARE
        runtimes_us = random.lognormal(8, 1.5, count).astype(np.uint64) + 1_000
        heads["entry_us"] = START_US + steps * PERIOD_US + random.integers(0, PERIOD_US, count)
        heads["exit_us"] = heads["entry_us"] + runtimes_us
        heads["exclusive_us"] = runtimes_us * 9 // 10
        heads["severity_us"] = heads["exclusive_us"] - 500.0
        heads["score"] = random.lognormal(2, 0.5, count)
        heads["frames"] = DEPTH
        repeated: dict[str, Any] = {
            part: np.tile(template.rows(part), count).tobytes()
            for part in ("members", "messages", "counters", "metrics", "node_state")
        }
        frames: Rows = np.repeat(np.frombuffer(template.frames, MEMBER)[:1], count * DEPTH)
        frames["function"] = paths.ravel()
        frames["row"] = np.tile(np.arange(DEPTH), count)
        names = {number: self.function_name(number) for number in range(self.functions)}
        records = PackedRecords(
            heads=heads.tobytes(),
            frames=frames.tobytes(),
            functions=names,
            counter_names=template.counter_names,
            **repeated,
        )
        return records, np.bincount(steps[is_anomaly], minlength=self.steps)

    def _batch(self, rank: int, records: PackedRecords, anomalies: Counts) -> RecordBatch:
        made_steps = [
            StepCount(0, rank, step, start_us, start_us + PERIOD_US, CALLS_PER_STEP, n, LOST_US * n)
            for step, n in enumerate(anomalies.tolist())
            for start_us in [START_US + step * PERIOD_US]
        ]
        health = self.health(rank, int(anomalies.sum()))
        return RecordBatch(f"0:{rank}", 1, records, made_steps, [], health, {})
