"""Kernels and the calls that launched them: pairs found, of those that are known.

A detector that flags many of the kernels, since only what is recorded has a launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from chimbuko.core.arrays import Int64Array
from chimbuko.core.config import AnalysisConfig
from evaluation.cluster import Cluster, Source
from evaluation.injections import every, kernels_run
from evaluation.labelled import LabelledStream
from evaluation.tables import ResultTable

STREAMS = 3
KERNELS = 200
SEED = 1
HOST = 0
ALL_STEPS = 1 << 20
NOWHERE = -1
ORDERS = {
    "with their launches": {},
    "in one late dump": dict.fromkeys(range(1, 1 + STREAMS), ALL_STEPS),
    "before their launches": {HOST: 2},
}
"""When the rows of kernels come; threads to steps by which they are late."""
NEARLY_ALL = AnalysisConfig(
    detector="sstd",
    threshold=0.001,
    min_anomaly_us=0,
    fast_side=True,
    max_anomalies_per_function=STREAMS * KERNELS,
)


@dataclass(frozen=True)
class PairResult:
    """What became of the kernels of one run."""

    order: str
    kernels: int
    """Recorded ones."""
    right: int
    wrong: int
    """With another call than the one that launched it; and launches of what is no kernel."""

    def as_json(self) -> dict[str, Any]:
        """All counts."""
        return asdict(self)


def measure(order: str) -> PairResult:
    """Analyse one run and compare launches with the truth."""
    run = kernels_run(SEED, STREAMS, KERNELS, every(5, KERNELS, first=20), ORDERS[order])
    stream = run.streams[0]
    config = msgspec.structs.replace(NEARLY_ALL, period_us=run.period_us)
    cluster = Cluster([Source(stream.program, stream.rank, stream.names, iter(stream.steps))], 1, config)
    last = {
        (head["begin_step"], head["begin_row"]): (head["launch_step"], head["launch_row"])
        for records in cluster.streams[0].records
        for head in records.head_rows()
    }
    recorded = _events(stream, list(last.keys()))
    launches = _events(stream, list(last.values()))
    launch_of = np.full(int(run.truth.entry.max()) + 1, NOWHERE)
    is_kernel = run.truth.launched_by >= 0
    launch_of[run.truth.entry[is_kernel]] = run.truth.entry[run.truth.launched_by[is_kernel]]
    known = launch_of[recorded]
    return PairResult(
        order,
        kernels=int(np.count_nonzero(known != NOWHERE)),
        right=int(np.count_nonzero((known != NOWHERE) & (launches == known))),
        wrong=int(np.count_nonzero((launches != NOWHERE) & (launches != known))),
    )


def _events(stream: LabelledStream, places: list[tuple[int, int]]) -> Int64Array:
    """Which event of the stream stands at each place (step, row), or NOWHERE."""
    steps, rows = np.array(places, np.int64).T
    return np.where(steps >= 0, stream.event_number(np.maximum(steps, 0), rows), NOWHERE)


def table(results: Iterable[PairResult]) -> ResultTable:
    """One row per order."""
    columns = ("kernels come", "recorded", "launch found", "wrong")
    rows = [(one.order, str(one.kernels), str(one.right), str(one.wrong)) for one in results]
    return ResultTable("GPU kernels and their launches", columns, rows)
