"""Incidents of a run that goes on, with a clock that the test moves."""

from __future__ import annotations

import msgspec
import pytest
from sqlalchemy import Engine

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write import liveincidents
from chimbuko.provenance.write.liveincidents import PERIOD_S
from chimbuko.provenance.write.writer import Writer
from tests.causes.flagged import record
from tests.causes.stories import ORIGIN, chain, interruptions
from tests.provenance.livestore import Clock, LiveStore
from tests.sample_records import RUN_ID, make_batches


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def live(writer: Writer, clock: Clock) -> LiveStore:
    return LiveStore(writer, clock)


def store(writer: Writer, live: LiveStore, *records: object) -> None:
    batches = make_batches(records)  # type: ignore[arg-type]
    writer.write(batches)
    live.take(batches)


def test_an_incident_grows_as_calls_come_and_keeps_its_number(
    writer: Writer, provenance: Provenance, live: LiveStore, clock: Clock
) -> None:
    found = Incidents(provenance.reader)
    delay, *waits = chain()
    for number, one in enumerate([*reversed(waits), delay], 1):
        store(writer, live, one)
        live.keep_up()
        clock.now_s += PERIOD_S
        (told,) = found.page().incidents
        assert (told.id, told.flags) == ("I1", number)
    assert (told.call_id, told.ranks) == (ORIGIN, 4)
    assert provenance.calls.count(CallFilter(incident="I1")) == 4
    assert live.core.explanation(ORIGIN) == ("I1", told.sentence)
    assert live.core.explanation("0:9:9:9") == ("", "")


def test_looks_are_a_period_apart_or_more_if_they_take_long(
    writer: Writer, provenance: Provenance, live: LiveStore, clock: Clock
) -> None:
    found = Incidents(provenance.reader)
    calls = [record("compute", 0, 1000 * n, 1000 * n + 100) for n in range(5)]
    assert live.quiet_s(1.0) == 1.0
    store(writer, live, calls[0])
    clock.step_s = 0.2
    live.keep_up()
    assert found.page().total == 1
    # It took 0.2 s: the next look comes after a second, of which that was a fifth.
    clock.step_s = 0.0
    store(writer, live, calls[1])
    assert 0.5 < live.quiet_s(5.0) <= 1.0
    live.keep_up()
    assert found.page().total == 1
    live.keep_up(is_urgent=True)
    assert found.page().total == 2
    clock.now_s += 10
    live.keep_up()
    store(writer, live, calls[2])
    live.keep_up()
    assert found.page().total == 3


def test_old_calls_are_forgotten_and_their_incidents_stay_in_the_store(
    writer: Writer, provenance: Provenance, live: LiveStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveincidents, "HORIZON_US", 500_000)
    monkeypatch.setattr(liveincidents, "MOST_CALLS", 4)
    for one in [*chain(), *interruptions()]:
        store(writer, live, one)
        live.keep_up()
        clock.now_s += 1
        assert len(live.core._tracker.evidence.flags) <= 5
    assert Incidents(provenance.reader).page(with_short=True).total == 41
    (recurring,) = Incidents(provenance.reader).recurrences()
    assert recurring.recurrence.kind is RecurrenceKind.INTERRUPTIONS
    # What recurs is reported every few seconds.
    assert 30 <= recurring.recurrence.calls <= 40


def test_a_writer_that_is_started_again_numbers_on(
    writer: Writer, provenance: Provenance, clock: Clock
) -> None:
    first = LiveStore(writer, clock)
    store(writer, first, record("compute", 0, 0, 100))
    first.keep_up()
    second = LiveStore(writer, clock, provenance)
    store(writer, second, record("compute", 0, 5000, 5100))
    second.keep_up()
    assert [one.id for one in Incidents(provenance.reader).page(sort="begin_us").incidents] == ["I1", "I2"]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_an_incident_goes_on_where_a_writer_is_started_again(
    writer: Writer, provenance: Provenance, clock: Clock, first: int
) -> None:
    story = [record("compute", 0, -90_000, -89_900), *chain()]
    for some in (story[: first + 1], story[first + 1 :]):
        live = LiveStore(writer, clock, provenance)
        store(writer, live, *some)
        live.keep_up(is_urgent=True)
    old, grown = Incidents(provenance.reader).page(sort="begin_us").incidents
    assert (old.id, old.flags) == ("I1", 1)
    assert (grown.id, grown.call_id, grown.flags, grown.ranks) == ("I2", ORIGIN, 4, 4)
    assert {provenance.calls.record(one.id).incident_id for one in chain()} == {"I2"}


def test_a_delay_that_was_not_flagged_is_asked_for_and_becomes_the_origin(
    writer: Writer, provenance: Provenance, engine: Engine, clock: Clock
) -> None:
    live = LiveStore(writer, clock)
    delay, *waits = chain()
    store(writer, live, *waits)
    live.keep_up()
    (told,) = Incidents(provenance.reader).page().incidents
    assert (told.call_id, told.rank) == ("", 3)
    live.core._tracker.evidence.ranks[0].add(3)
    clock.now_s += 2
    live.keep_up()
    assert [(sorted(request.ranks), request.least_own_us > 0) for request in live.asked] == [([3], True)]
    store(writer, live, msgspec.structs.replace(delay, label=Label.NORMAL, revision=0))
    live.keep_up(is_urgent=True)
    (told,) = Incidents(provenance.reader).page().incidents
    assert (told.call_id, told.rank, told.function, told.flags, told.ranks) == (ORIGIN, 3, "compute", 3, 4)
    assert told.sentence.startswith("compute on rank 3 took 100 ms, 100× its usual 1 ms; ranks 0 and 2")
    assert live.core.explanation(waits[0].id) == (told.id, told.sentence)
    assert provenance.calls.record(ORIGIN).incident_id == told.id
    assert not Incidents(provenance.reader).one(told.id).incident.is_flagged
    explain(engine, RUN_ID)
    assert Incidents(provenance.reader).page().incidents == [told]


def test_waits_that_were_not_flagged_are_asked_for_and_told_of(
    writer: Writer, provenance: Provenance, clock: Clock
) -> None:
    live = LiveStore(writer, clock)
    delay, *waits = chain()
    (batch,) = make_batches([delay])
    for rank in range(4):
        # Of the others nothing but their steps has come.
        health = msgspec.structs.replace(batch.health, rank=rank)
        records = batch.records if rank == delay.rank else PackedRecords()
        live.take([msgspec.structs.replace(batch, health=health, records=records)])
    writer.write([batch])
    live.keep_up()
    assert live.asked == []
    assert live.quiet_s(10.0) <= PERIOD_S
    clock.now_s += 2
    live.keep_up()
    assert [sorted(request.ranks) for request in live.asked] == [[0, 1, 2]]
    # They are answered as normal calls.
    store(writer, live, *(msgspec.structs.replace(one, label=Label.NORMAL, revision=0) for one in waits))
    live.keep_up(is_urgent=True)
    (told,) = Incidents(provenance.reader).page().incidents
    assert (told.flags, told.ranks) == (1, 4)
    assert "ranks 0 and 2 waited 95 ms each for it in MPI_Recv" in told.sentence
    assert provenance.calls.count(CallFilter(incident="I1", label=None)) == 4
    assert provenance.calls.count(CallFilter(incident="I1")) == 1
