"""Functions that became slower, out of the models that were kept of them."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.record import StepCount, StreamHealth
from chimbuko.core.statistics.schema import stored_schema_of
from chimbuko.monitor.sampling.nodebatch import packed
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import (
    FunctionModel,
    FunctionStatistics,
    PathStatistics,
    RunStatistics,
)
from tests.causes.flagged import at
from tests.causes.nodes import batch, thread
from tests.sample_records import make_batch

SCHEMA = stored_schema_of("robust")


def models(
    function: str, runtimes_us: Float64Array, at: list[int], lost_us: float = 0.0
) -> list[FunctionModel]:
    """Models of a function after so many calls; the last of them have lost time in incidents."""
    kept = []
    for version, calls in enumerate(at):
        row = np.zeros(SCHEMA.width)
        so_far = runtimes_us[:calls]
        row[SCHEMA.slices["counted"]] = row[SCHEMA.slices["buckets"]] = np.histogram(so_far, EDGES_US)[0]
        row[SCHEMA.slices["exclusive_us"]][:2] = calls, so_far.mean()
        row[SCHEMA.slices["severity_us"]] = lost_us if calls == at[-1] else 0.0
        kept.append(FunctionModel(version, 0, function, row.tobytes()))
    return kept


def statistics(function: str, runtimes_us: Float64Array) -> FunctionStatistics:
    mean_us = runtimes_us.mean()
    return FunctionStatistics(
        0, function, len(runtimes_us), 0, 0.0, mean_us, 0.0, 1.0, 9e4, mean_us, 9e4, 1.0
    )


def test_a_function_that_slows_down_within_an_era(writer: Writer, provenance: Provenance) -> None:
    """What abnormal calls lost is in their incidents, and not in the drift."""
    at = [100, 500, 800, 1000, 1500]
    search = 1e3 + 3.0 * np.arange(1500, dtype=np.float64)
    late = search.copy()
    late[1200] += 4e5
    steady = np.full(1500, 1e3)
    told = [*models("search", late, at, 4e5), *models("advance", steady, at)]
    functions = [statistics("search", late), statistics("advance", steady)]
    writer.write_statistics(RunStatistics({0: "trouble"}, functions=functions, models=told))
    (drift,) = recurring(provenance)
    assert (drift.kind, drift.function, drift.calls) == (RecurrenceKind.DRIFT, "search", 1500)
    assert drift.share == 1.0
    lost_us = (search - search[0]).sum()
    assert 0.95 * lost_us <= drift.cost_us <= 1.02 * lost_us


@pytest.mark.parametrize(("ran_later_ms", "found"), [(2_500, 0), (4_900, 1)])
def test_calls_that_wait_longer_for_their_core_have_not_become_slower(
    writer: Writer, provenance: Provenance, ran_later_ms: int, found: int
) -> None:
    """From call 1,000 on each call takes twice as long, as others have the core half of the time, or not."""
    work = np.where(np.arange(2000) < 1000, 1e4, 2e4)
    functions = [statistics("work", work)]
    path = PathStatistics(
        *(0, ["work"], 2000, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2000, 3e7), *(3e7, 0.0)
    )
    told = models("work", work, [300, 1000, 1500, 2000])
    writer.write_statistics(RunStatistics({0: "heat"}, functions=functions, models=told, paths=[path]))
    begin_us, middle_us, end_us = (at(ms) for ms in (0, 5_000, 10_000))
    health = StreamHealth(0, 0, "node7", "ended", 2, 0, 0, 2000, 0, 0, {})
    counts = [StepCount(0, 0, 0, begin_us, middle_us, 1000, 0, 0.0)]
    counts.append(StepCount(0, 0, 1, middle_us, end_us, 1000, 0, 0.0))
    writer.write([make_batch(1, "0:0", health=health, steps=counts)])
    for begin_ms, ran_ms in ((0, 5_000), (5_000, ran_later_ms)):
        waited_us = 1000 * (5_000 - ran_ms)
        look = thread(0, begin_ms, begin_ms + 5_000, ran_us=1000 * ran_ms, waited_us=waited_us)
        writer.write_samples([packed(batch([], periods=[look], is_sum=True))])
    assert len(recurring(provenance)) == found
