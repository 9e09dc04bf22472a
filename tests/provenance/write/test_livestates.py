"""States of the live incidents, whatever comes and whatever cannot be stored at first."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

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
from tests.causes.flagged import record
from tests.sample_records import make_batches


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
