"""Incidents of a run that goes on, with a clock that the test moves."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from sqlalchemy import Engine

from chimbuko.causes.recurrence import RecurrenceKind
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write import liveincidents
from chimbuko.provenance.write.events import (
    CallsStored,
    IncidentsStored,
    RecurrencesStored,
    Tick,
)
from chimbuko.provenance.write.liveincidents import (
    PERIOD_S,
    RECURRENCES_S,
    Ask,
    LiveEvent,
    LiveIncidents,
    LiveInstruction,
    LiveState,
    Past,
    ReadRecurring,
    RecurringRead,
    StoreChanges,
    StoreRecurrences,
)
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


class LiveMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = LiveIncidents(0.0, Past())
        self.now_s = 0.0
        self.calls: list[str] = []
        self.incident_of: dict[str, int] = {}
        """What the store has."""
        self.looked_s, self.reported_s = -PERIOD_S, 0.0
        self.refused: StoreChanges | None = None
        """Changes that could not be stored."""

    @rule(rank=st.integers(0, 3), took_ms=st.sampled_from([5, 100]))
    def call(self, rank: int, took_ms: int) -> None:
        number = len(self.calls)
        slow = record("compute", rank, 40 * number, 40 * number + took_ms, row=number)
        self.calls.append(slow.id)
        assert self.handle(CallsStored(self.now_s, make_batches([slow]))) == []
        assert self.core.state is not LiveState.QUIET

    @rule(passed_s=st.sampled_from([0.125, 0.25, 0.625, 2.0, 6.0]))
    def let_time_pass(self, passed_s: float) -> None:
        self.now_s += passed_s

    @rule(is_urgent=st.booleans(), is_refused=st.booleans(), took_s=st.sampled_from([0.0, 0.0, 0.5]))
    def tick(self, is_urgent: bool, is_refused: bool, took_s: float) -> None:
        quiet_s = self.core.quiet_s(self.now_s, 1.0)
        assert 0.0 <= quiet_s <= 1.0
        was_quiet = self.core.state is LiveState.QUIET
        for instruction in self.handle(Tick(self.now_s, is_urgent)):
            if isinstance(instruction, StoreChanges):
                assert not was_quiet
                assert quiet_s == 0.0 or is_urgent
                if self.refused is None:
                    assert is_urgent or self.now_s - self.looked_s >= PERIOD_S
                    self.looked_s = self.now_s
                assert self.refused in (None, instruction), "what is not stored is not forgotten"
                self.refused = instruction if is_refused else None
                if is_refused:
                    return
            self.now_s += took_s
            self.do(instruction)

    def do(self, instruction: LiveInstruction) -> None:
        match instruction:
            case StoreChanges(changes):
                self.incident_of |= changes.incident_of
                asked = self.handle(IncidentsStored(self.now_s, changes.incidents))
                assert all(isinstance(one, Ask) for one in asked)
            case ReadRecurring():
                assert self.now_s - self.reported_s >= RECURRENCES_S
                self.reported_s = self.now_s
                for one in self.handle(RecurringRead(self.now_s, [])):
                    assert isinstance(one, StoreRecurrences)
                    assert self.handle(RecurrencesStored(self.now_s, [])) == []

    def handle(self, event: LiveEvent) -> list[LiveInstruction]:
        instructions = self.core.handle(event)
        self.core.validate_state()
        return instructions

    def teardown(self) -> None:
        """At the end each call is part of an incident in the store."""
        self.tick(True, False, 0.0)
        self.tick(True, False, 0.0)
        assert self.core.state is LiveState.QUIET
        assert self.incident_of.keys() == set(self.calls)
        assert all(self.incident_of.values())


TestLiveIncidents = LiveMachine.TestCase
TestLiveIncidents.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
