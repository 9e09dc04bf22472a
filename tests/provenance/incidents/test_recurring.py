"""What recurs, out of what is stored: learned of functions, and said of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.statistics.schema import PLACED, schema_of
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.liveincidents import RECURRENCES_S
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionModel, FunctionStatistics, RunStatistics
from chimbuko.runtime.protocol.telemetry import SlowRank
from tests.causes.flagged import record
from tests.provenance.livestore import LiveStore
from tests.sample_records import make_batches


def model(
    function: str,
    runtimes_us: np.ndarray[tuple[int], np.dtype[np.float64]],
    placed: tuple[float, float] = (0.0, 0.0),
) -> FunctionModel:
    """What the detector has learned of calls that took so long."""
    schema = schema_of("robust")
    row = np.zeros(schema.width)
    row[schema.slices["buckets"]] = np.histogram(runtimes_us, EDGES_US)[0]
    row[schema.slices["exclusive_us"]][:2] = len(runtimes_us), runtimes_us.mean()
    row[[schema.slices[column.name].start for column in PLACED]] = placed
    return FunctionModel(1, 0, function, row.tobytes())


def statistics(function: str, calls: int, mean_us: float, drift: float = 1.0) -> FunctionStatistics:
    return FunctionStatistics(0, function, calls, 0, 0.0, mean_us, 0.0, 1.0, 9e4, mean_us, 9e4, drift)


def learned_run() -> RunStatistics:
    """``step`` takes 80 ms now and then, ``relax`` has doubled halfway; no call of either is flagged."""
    step = np.repeat([15.0, 80_000.0], [9930, 70])
    relax = np.full(10_000, 200.0)
    return RunStatistics(
        {0: "heat"},
        functions=[statistics("step", 10_000, step.mean()), statistics("relax", 10_000, 150.0, 2.0)],
        models=[model("step", step), model("relax", relax)],
    )


def test_slow_modes_and_drift_are_found_while_the_run_lives(writer: Writer, provenance: Provenance) -> None:
    """Nothing is flagged; what is learned later is reported later."""
    now_s = 0.0
    live = LiveStore(writer, lambda: now_s, provenance, lambda: recurring(provenance))
    now_s += RECURRENCES_S
    live.keep_up()
    assert Incidents(provenance.reader).recurrences() == []
    writer.write_statistics(learned_run())
    live.keep_up()
    assert Incidents(provenance.reader).recurrences() == []
    now_s += RECURRENCES_S
    live.keep_up()
    mode, drift = [one.recurrence for one in Incidents(provenance.reader).recurrences()]
    assert (mode.kind, mode.function, mode.calls) == (RecurrenceKind.SLOW_MODE, "step", 70)
    assert (drift.kind, drift.function, drift.factor) == (RecurrenceKind.DRIFT, "relax", 2.0)
    assert drift.cost_us == pytest.approx(10_000 * 50.0, rel=0.1)


@pytest.mark.parametrize(
    ("placed", "findings"),
    [((68.0, 66.0), 0), ((68.0, 40.0), 1), ((14.0, 14.0), 1), ((700.0, 700.0), 1)],
    ids=["the calls of the mode", "some of them", "too few are known", "shorter calls"],
)
def test_slow_mode_whose_calls_have_places_of_their_own_is_no_finding(
    writer: Writer, provenance: Provenance, placed: tuple[float, float], findings: int
) -> None:
    step = np.repeat([15.0, 80_000.0], [9930, 70])
    functions = [statistics("step", 10_000, step.mean())]
    writer.write_statistics(
        RunStatistics({0: "heat"}, functions=functions, models=[model("step", step, placed)])
    )
    assert len(recurring(provenance)) == findings


def test_examples_of_drift_are_its_first_and_newest_calls(writer: Writer, provenance: Provenance) -> None:
    writer.write_statistics(learned_run())
    calls = [record("relax", 1, 100 * n, 100 * n + 1, row=n + 1) for n in range(6)]
    writer.write(make_batches(calls))
    drift = next(one for one in recurring(provenance) if one.kind is RecurrenceKind.DRIFT)
    assert drift.examples == [calls[n].id for n in (5, 4, 3, 0)]


def test_slow_ranks_of_a_node_are_one_finding(writer: Writer, provenance: Provenance) -> None:
    slow = [
        SlowRank(0, 4, "n1", "", 1.2, 9.0, 2e6, 20, 16),
        SlowRank(0, 4, "n1", "relax", 1.3, 9.0, 1.5e6, 20, 16),
        SlowRank(0, 5, "n1", "", 1.2, 9.0, 1e6, 20, 16),
        SlowRank(0, 9, "n2", "relax", 1.5, 9.0, 5e5, 20, 16),
    ]
    first, second = recurring(provenance, slow)
    assert (first.kind, first.node, first.ranks, first.functions) == (
        RecurrenceKind.SLOW_RANKS,
        "n1",
        [4, 5],
        ["relax"],
    )
    # What a rank loses in one function is in what it loses in all.
    assert (first.cost_us, first.factor) == (3e6, pytest.approx(1.2))
    assert (second.node, second.ranks, second.cost_us) == ("n2", [9], 5e5)
