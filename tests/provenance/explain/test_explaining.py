"""The incidents of a stored run: found, kept under their numbers, and withdrawn."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, update

from chimbuko.causes.incident import Incident
from chimbuko.causes.part import Part
from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.explain import explaining as module
from chimbuko.provenance.explain.explaining import Explained, explain, slow_ranks_of
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.manage.transfer import copy_run
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import CALLS
from chimbuko.provenance.write.events import CallsStored
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunDirectory
from tests.causes.flagged import record
from tests.causes.stories import ORIGIN, chain, interruptions
from tests.sample_records import RUN_ID, make_batches


@pytest.fixture
def store_url(any_store_url: str) -> str:
    return any_store_url


def test_a_chain_is_one_incident_and_its_calls_say_so(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    writer.write(make_batches([*chain(), *interruptions()]))
    assert explain(engine, RUN_ID) == Explained(calls=44, incidents=41, recurrences=1)
    page = Incidents(provenance.reader).page()
    (one,) = page.incidents
    assert (one.id, one.rank, one.function, one.call_id) == ("I1", 3, "compute", ORIGIN)
    assert (one.flags, one.ranks, page.total) == (4, 4, 1)
    assert one.sentence == (
        "compute on rank 3 took 100 ms, 100× its usual 1 ms; ranks 0 and 2 waited 95 ms each for it "
        "in MPI_Recv; rank 1 waited 95 ms for it in MPI_Waitall: 384 ms lost on 4 ranks together."
    )
    calls = provenance.calls.page(CallFilter(incident="I1")).calls
    assert {call.id for call in calls} == {one.id for one in chain()}
    assert {call.incident_id for call in calls} == {"I1"}
    assert provenance.calls.record(ORIGIN).incident_id == "I1"
    assert provenance.calls.count(CallFilter(incident="I2")) == 1
    details = Incidents(provenance.reader).one("I1")
    assert [waited.rank for waited in details.incident.waited] == [0, 1, 2]
    (found,) = Incidents(provenance.reader).recurrences()
    assert (found.recurrence.kind, found.recurrence.calls) == (RecurrenceKind.INTERRUPTIONS, 40)
    everything = Incidents(provenance.reader).page(with_short=True, limit=10)
    assert (everything.total, len(everything.incidents)) == (41, 10)
    last = Incidents(provenance.reader).page(with_short=True, limit=10, offset=40, sort="begin_us")
    assert (last.total, len(last.incidents)) == (41, 1)


def test_finding_them_again_changes_nothing_and_what_is_new_gets_new_numbers(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    writer.write(make_batches(chain()[2:]))
    explain(engine, RUN_ID)
    before = Incidents(provenance.reader).page().incidents
    explain(engine, RUN_ID)
    assert Incidents(provenance.reader).page().incidents == before
    writer.write(make_batches([record("other", 0, 5000, 5100)]))
    explain(engine, RUN_ID)
    assert [one.id for one in Incidents(provenance.reader).page(sort="begin_us").incidents] == ["I1", "I2"]
    writer.write(make_batches(chain()[:2]))
    explain(engine, RUN_ID)
    first = Incidents(provenance.reader).page(sort="begin_us").incidents[0]
    assert (first.id, first.call_id, first.flags) == ("I1", ORIGIN, 4)
    # What was told of it before stays, whoever looks again.
    for _ in range(2):
        assert Incidents(provenance.reader).one("I1").incident.told_before == before[0].sentence
        explain(engine, RUN_ID)
    assert Incidents(provenance.reader).one("I2").incident.told_before == ""


def test_other_amounts_of_a_cause_are_no_revision(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    writer.write(make_batches(chain()))
    explain(engine, RUN_ID)
    found = Incidents(provenance.reader).one("I1").incident

    def told(kind: str, by: str) -> Incident:
        return replace(found, kind=kind, parts=[Part(kind, found.excess_us, by=by)])

    before = told("own code", "150 ms of CPU time instead of 50 ms")
    assert module._revised(told("own code", "150 ms of CPU time instead of 51 ms"), before).told_before == ""
    before = told("waited for core", "one")
    assert "one" in module._revised(told("waited for core", "two"), before).told_before


def test_one_that_became_part_of_another_leads_on_to_it(
    writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    waits = [record("MPI_Recv()", 1, 0, 100), record("MPI_Recv()", 2, 55, 230)]
    writer.write(make_batches(waits))
    assert explain(engine, RUN_ID).incidents == 2
    writer.write(make_batches([record("compute", 3, 0, 100)]))
    assert explain(engine, RUN_ID).incidents == 1
    assert Incidents(provenance.reader).one("I2").summary.id == "I1"
    assert [one.id for one in Incidents(provenance.reader).page().incidents] == ["I1"]
    for wanted in ("I3", "0:1:2:3", "I0"):
        with pytest.raises(ConfigError, match="not in this run"):
            Incidents(provenance.reader).one(wanted)


@pytest.mark.parametrize("are_kept", [False, True])
def test_one_whose_calls_are_ordinary_in_the_end_says_so(
    are_kept: bool, writer: Writer, provenance: Provenance, engine: Engine
) -> None:
    batches = make_batches([*chain(), record("other", 0, 5000, 5100)])
    writer.write(batches)
    kept = Kept()
    explain(engine, RUN_ID)
    with engine.begin() as connection:
        connection.execute(
            update(CALLS).where(CALLS.c.entry_us > chain()[0].exit_us).values(is_anomaly=False)
        )
    kept.take(CallsStored(0.0, batches))
    assert explain(engine, RUN_ID, kept=kept if are_kept else None).incidents == 1
    assert Incidents(provenance.reader).one("I2").is_gone
    assert [one.id for one in Incidents(provenance.reader).page().incidents] == ["I1"]


def test_a_long_run_is_explained_piece_by_piece(
    writer: Writer, provenance: Provenance, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    monkeypatch.setattr(module, "HORIZON_US", 200_000)
    writer.write(make_batches([*chain(), *interruptions()]))
    assert explain(engine, RUN_ID) == Explained(calls=44, incidents=41, recurrences=1)
    assert Incidents(provenance.reader).page().incidents[0].flags == 4


def test_incidents_go_where_their_run_goes(writer: Writer, engine: Engine, tmp_path: Path) -> None:
    writer.write(make_batches(chain()))
    explain(engine, RUN_ID)
    url = f"sqlite:///{tmp_path / 'copy.sqlite'}"
    target = open_for_writing(url)
    copy_run(engine, RUN_ID, target)
    close(target)
    with Provenance(open_for_reading(url), RUN_ID) as copied:
        assert Incidents(copied.reader).page().incidents[0].call_id == ORIGIN
        assert copied.calls.count(CallFilter(incident="I1")) == 4


@pytest.mark.parametrize("report", [b"", b"text", gzip.compress(b"{")])
def test_without_a_readable_report_no_rank_counts_as_slow(tmp_path: Path, report: bytes) -> None:
    run = RunDirectory(tmp_path)
    said: list[str] = []
    assert slow_ranks_of(run, said.append) == [] and said == []
    run.report_path.write_bytes(report)
    assert slow_ranks_of(run, said.append) == []
    assert len(said) == 1 and said[0].startswith("no rank counts as slow, as the report of the run cannot")
