"""Functions that became slower, out of the models that were kept of them."""

from __future__ import annotations

import numpy as np

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.statistics.schema import stored_schema_of
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics, RunStatistics

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
