"""What recurs: delays so frequent that the detector learns them are slow modes of their functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from chimbuko.causes.incidents.slowmodes import slow_modes_of
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.core.traceschema import EVENT_TIMER
from evaluation.cluster import Cluster, Source
from evaluation.injections import INJECTIONS
from evaluation.score import flags_in
from evaluation.tables import ResultTable

SEED = 1
MUST_BE_REPORTED = ("func_multimodal", "mpi_comm_outlier", "mpi_threaded_comm_outlier", "multiinstance_nompi")


@dataclass(frozen=True)
class Reported:
    """What became of the injected calls of one scenario."""

    scenario: str
    injected: int
    flagged: int
    reported: int
    """Flagged, or in a slow mode of their function."""
    findings: int

    @property
    def share(self) -> float:
        """Of the injected calls, those that are reported."""
        return self.reported / self.injected if self.injected else float("nan")


def measure(scenario: str) -> Reported:
    """Analyse an injection of the C++ system's benchmarks with the default detector."""
    run = INJECTIONS[scenario](SEED)
    config = msgspec.structs.replace(AnalysisConfig(), period_us=run.period_us, window_calls=0)
    cluster = Cluster([Source(s.program, s.rank, s.names, iter(s.steps)) for s in run.streams], 1, config)
    cluster.server.name_programs({stream.program: str(stream.program) for stream in run.streams})
    functions, table = cluster.server.learned()
    columns = schema_of(config.detector).slices
    modes = slow_modes_of(functions, table[:, columns["buckets"]], table[:, columns["exclusive_us"]])
    from_us = {(int(mode.program), mode.function): mode.from_us for mode in modes}
    is_injected, is_flagged = run.truth.factor > 0, flags_in(run, cluster)
    is_reported = is_flagged.copy()
    for number, stream in enumerate(run.streams):
        timers = np.concatenate([step.events[:, EVENT_TIMER] for step in stream.steps])
        for call in np.flatnonzero(is_injected & (run.truth.stream == number)).tolist():
            name = stream.names.timers[int(timers[run.truth.entry[call]])]
            limit_us = from_us.get((stream.program, name), np.inf)
            is_reported[call] |= run.truth.runtime_us[call] >= limit_us
    return Reported(
        scenario,
        int(is_injected.sum()),
        int((is_injected & is_flagged).sum()),
        int((is_injected & is_reported).sum()),
        len(modes),
    )


def table(results: Iterable[Reported]) -> ResultTable:
    """One row per scenario."""
    rows = [
        (one.scenario, str(one.injected), str(one.flagged), str(one.reported), str(one.findings))
        for one in results
    ]
    columns = ("scenario", "injected", "flagged", "flagged or in a slow mode", "slow modes")
    return ResultTable("Frequent delays", columns, rows)
