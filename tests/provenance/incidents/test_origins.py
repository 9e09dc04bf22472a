"""Where time was lost at first."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.origins import origins
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from tests.causes.flagged import record
from tests.causes.stories import chain
from tests.sample_records import RUN_ID, make_batches


@pytest.fixture
def store_url(any_store_url: str) -> str:
    return any_store_url


def test_cost_stands_with_the_origin_and_waits_stand_apart(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    alone = record("MPI_Recv()", 1, 9_000, 9_050)
    calls = [*chain(), record("other", 0, 5_000, 5_100), alone]
    writer.write(make_batches(calls))
    explain(engine, RUN_ID)
    severity_us = {call.rank: call.severity_us for call in chain()}
    by_rank = origins(provenance.reader, "rank", 10)
    assert [(one.rank, one.incidents) for one in by_rank.origins] == [(3, 1), (0, 1), (1, 0), (2, 0)]
    assert [one.function for one in by_rank.origins] == [None] * 4
    assert by_rank.origins[0].lost_us == pytest.approx(sum(severity_us.values()))
    # Whom the last wait was for is not on record: it is nobody's loss, and a wait all the same.
    waited_us = {one.rank: one.waited_us for one in by_rank.origins}
    assert waited_us == pytest.approx(severity_us | {1: severity_us[1] + alone.severity_us, 3: 0.0})
    assert by_rank.unknown_us == pytest.approx(alone.severity_us)
    assert by_rank.lost_us == pytest.approx(sum(call.severity_us for call in calls))
    by_function = origins(provenance.reader, "function", 1)
    assert by_function.total == 4
    (first,) = by_function.origins
    assert (first.function, first.rank, first.waited_us) == ("compute", None, 0.0)


def test_a_run_without_incidents_has_none(writer: Writer, provenance: Provenance) -> None:
    writer.write(make_batches(chain()))
    found = origins(provenance.reader, "rank", 5)
    assert (found.origins, found.total, found.lost_us) == ([], 0, 0.0)
