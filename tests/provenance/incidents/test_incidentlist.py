"""Incidents of what nodes took from ranks, in the store: of a run without an abnormal call, too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine

from chimbuko.monitor.sampling.nodebatch import NodeBatch, packed
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from tests.causes.flagged import record
from tests.causes.losses import loss, shared
from tests.provenance.livestore import LiveStore
from tests.sample_records import RUN_ID, make_batches

LOSSES = [loss(1, 0, 1_000, 500), loss(1, 0, 2_000, 1_000), loss(3, 30_000, 31_000, 400)]
SAMPLES = [shared(one) for one in LOSSES]


def look(writer: Writer, samples: Sequence[NodeBatch]) -> None:
    """The live side."""
    live = LiveStore(writer, lambda: 0.0)
    for batch in samples:
        live.take_samples([batch])
        live.keep_up(is_urgent=True)


def test_a_loss_goes_on_where_a_writer_is_started_again(writer: Writer, provenance: Provenance) -> None:
    first, later = SAMPLES[0], replace(SAMPLES[1], looks=b"", others=b"")
    for some in ([first], [later]):
        live = LiveStore(writer, lambda: 0.0, provenance)
        writer.write_samples(map(packed, some))
        live.take_samples(some)
        live.keep_up(is_urgent=True)
    (one,) = Incidents(provenance.reader).page(with_short=True).incidents
    assert (one.id, one.cost_us) == ("I1", 1e6)
    assert one.sentence.startswith("spinner (root, process 4711) took core 1 for 1 s of 2 s, which rank 1")


@pytest.mark.parametrize("calls", [[], [record("compute", 1, 15_000, 15_100)]], ids=["none", "elsewhere"])
def test_the_end_of_a_run_finds_the_same_incidents_as_it_did_live(
    engine: Engine, writer: Writer, provenance: Provenance, calls: list[object]
) -> None:
    writer.write(make_batches(calls))  # type: ignore[arg-type]
    writer.write_samples(map(packed, SAMPLES))
    look(writer, SAMPLES)
    found = Incidents(provenance.reader)
    live = [one for one in found.page(with_short=True).incidents if not one.call_id]
    assert [(one.id, one.kind, one.rank, one.flags, one.cost_us) for one in live] == [
        ("I1", "waited for core", 1, 0, 1e6),
        ("I2", "waited for core", 3, 0, 4e5),
    ]
    explain(engine, RUN_ID)
    explain(engine, RUN_ID)
    assert [one for one in found.page(with_short=True).incidents if not one.call_id] == live
    assert found.one("I1").incident.losses[0].rank == 1
    assert provenance.calls.count(CallFilter(incident="I1")) == 0
