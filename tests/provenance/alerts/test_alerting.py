"""Alerts as instructions of a state machine: one for each cause, in any order of events."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.monitor.report.finding import Finding
from chimbuko.provenance.alerts.alerting import (
    AGENTS_LOOK_S,
    CALLS_PERIOD_S,
    MUCH_MORE,
    STANDSTILL_LOOK_S,
    AgentAlert,
    Alerting,
    CallAlert,
    CallGate,
    CostGate,
    DeadlockAlert,
    RecurrenceAlert,
)
from chimbuko.provenance.alerts.events import (
    AgentsSeen,
    Event,
    Instruction,
    LookAtAgents,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.incidents.standstill import Standstill
from chimbuko.provenance.write.events import (
    ExplainedCall,
    HealthStored,
    RecurrencesStored,
    Resumed,
    SevereCallsStored,
    Tick,
)
from chimbuko.provenance.write.severecalls import SevereCall

LEAST_US = 1000.0
FUNCTIONS = ("solve", "write")
AGENTS = ("agent-a", "agent-b")
PROGRAMS = (0, 1)


def recurrence(function: str, cost_us: float) -> RecurrenceSummary:
    found = Recurrence(0, RecurrenceKind.SLOW_MODE, function, 9, cost_us, 1.0, 2.0, [function], [0], 0, 1, [])
    return RecurrenceSummary(f"R{1 + FUNCTIONS.index(function)}", f"{function} is slow", found)


def standstill(program: int) -> Standstill:
    return Standstill(program, {0: ["MPI_Recv"]}, Finding("deadlock", "all wait", "look for a receive"))


def call(row: int, function: str, severity_us: float) -> ExplainedCall:
    severe = SevereCall((0, 1, 3, row), function, 0, "node7", 3, 1, False, severity_us, 7.0)
    return ExplainedCall(severe, "I1", "it took long")


class AlertingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = Alerting("run", LEAST_US)
        self.now_s = 0.0
        self.calls = 0
        self.call_alerts: list[tuple[float, CallAlert]] = []
        self.costs_us: dict[str, float] = {}
        """Cost of each finding by its last alert, or by what was stored before."""
        self.silent: frozenset[str] = frozenset()
        self.locked: frozenset[int] = frozenset()
        self.has_silent_rank = False
        self.looks: dict[type[Instruction], float] = {}

    def handle(self, event: Event) -> list[Any]:
        """Return alerts; looks are noted."""
        found = self.core.handle(event)
        self.core.validate_state()
        for one in found:
            if not isinstance(one, Send):
                period_s = AGENTS_LOOK_S if isinstance(one, LookAtAgents) else STANDSTILL_LOOK_S
                assert self.now_s - self.looks.get(type(one), -100.0) >= period_s
                assert isinstance(one, LookAtAgents) or self.has_silent_rank
                self.looks[type(one)] = self.now_s
        return [one.alert for one in found if isinstance(one, Send)]

    @rule(passed_s=st.sampled_from([0.5, 1.0, 4.0, 11.0]))
    def tick(self, passed_s: float) -> None:
        self.now_s += passed_s
        assert self.handle(Tick(self.now_s)) == []
        assert self.now_s - self.looks[LookAtAgents] < AGENTS_LOOK_S

    @rule(calls=st.lists(st.tuples(st.sampled_from(FUNCTIONS), st.integers(1, 9)), max_size=4))
    def store_calls(self, calls: Sequence[tuple[str, int]]) -> None:
        severe = [call(self.calls + n, *one) for n, one in enumerate(calls)]
        self.calls += len(severe)
        sent = self.handle(SevereCallsStored(self.now_s, severe))
        self.call_alerts += [(self.now_s, one) for one in sent]
        for alert in sent:
            of_function = [one.call for one in severe if one.call.function == alert.function]
            assert alert.severity_us == max(one.severity_us for one in of_function)
            assert (alert.incident, alert.sentence) == ("I1", "it took long")

    @rule(function=st.sampled_from(FUNCTIONS), cost_us=st.sampled_from([10.0, 1e3, 3e3, 1e4, 3e4, 1e6]))
    def store_recurrence(self, function: str, cost_us: float) -> None:
        before_us = self.costs_us.get(function)
        is_due = cost_us >= (LEAST_US if before_us is None else MUCH_MORE * before_us)
        sent = self.handle(RecurrencesStored(self.now_s, [recurrence(function, cost_us)]))
        assert [(one.function, one.is_growth) for one in sent] == [(function, before_us is not None)] * is_due
        assert all(isinstance(one, RecurrenceAlert) for one in sent)
        if is_due:
            self.costs_us[function] = cost_us

    @rule(function=st.sampled_from(FUNCTIONS), cost_us=st.sampled_from([10.0, 1e3, 1e4]))
    def resume(self, function: str, cost_us: float) -> None:
        """The store was put aside, and what is stored anew comes from its successor."""
        assert self.handle(Resumed(self.now_s, [], [recurrence(function, cost_us)])) == []
        if cost_us >= LEAST_US:
            self.costs_us.setdefault(function, cost_us)

    @rule(agents=st.frozensets(st.sampled_from(AGENTS)))
    def see_agents(self, agents: frozenset[str]) -> None:
        sent = self.handle(AgentsSeen(self.now_s, dict.fromkeys(agents, 8.0)))
        assert all(isinstance(one, AgentAlert) for one in sent)
        found = Counter((one.agent, one.is_silent, one.silent_s) for one in sent)
        fell, came = agents - self.silent, self.silent - agents
        assert found == Counter([(one, True, 8.0) for one in fell] + [(one, False, 0.0) for one in came])
        self.silent = agents

    @rule(is_silent=st.booleans())
    def store_health(self, is_silent: bool) -> None:
        silence = Silence(7, "MPI_Recv()", 5) if is_silent else None
        health = StreamHealth(0, 0, "n1", "silent", 1, 1, 1, 1, 1, 0, {}, silence)
        assert self.handle(HealthStored(self.now_s, [health])) == []
        self.has_silent_rank = is_silent

    @rule(programs=st.frozensets(st.sampled_from(PROGRAMS)))
    def see_standstills(self, programs: frozenset[int]) -> None:
        sent = self.handle(StandstillsSeen(self.now_s, [standstill(one) for one in sorted(programs)]))
        assert all(isinstance(one, DeadlockAlert) for one in sent)
        assert [one.program for one in sent] == sorted(programs - self.locked)
        self.locked = programs

    def teardown(self) -> None:
        """Each call had its alert, or is counted in the next one of its function."""
        self.now_s += CALLS_PERIOD_S
        self.store_calls([(function, 1) for function in FUNCTIONS])
        assert sum(1 + one.suppressed for _, one in self.call_alerts) == self.calls
        for function in FUNCTIONS:
            times = [at_s for at_s, one in self.call_alerts if one.function == function]
            assert all(later - sooner >= CALLS_PERIOD_S for sooner, later in itertools.pairwise(times))
        assert self.core.story.lines()


TestAlerting = AlertingMachine.TestCase
TestAlerting.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_each_passes_once_and_again_at_ten_times_the_cost() -> None:
    gate = CostGate(1000.0, 10.0)
    costs = (999.0, 1000.0, 1000.0, 9999.0, 10_000.0, 99_000.0, 500.0, 100_000.0)
    assert [cost_us for cost_us in costs if gate.passes("relax", cost_us)] == [1000.0, 10_000.0, 100_000.0]
    assert not gate.passes("relax", 100_001.0)
    assert not gate.has_passed("step") and gate.passes("step", 2000.0) and gate.has_passed("step")


def test_without_growth_each_passes_once() -> None:
    gate = CostGate(1000.0)
    assert [gate.passes(7, cost_us) for cost_us in (10.0, 1000.0, 1e300)] == [False, True, False]


def test_what_was_stored_before_is_not_new() -> None:
    gate = CostGate(1000.0, 10.0)
    gate.know("relax", 2000.0)
    gate.know("step", 10.0)
    assert not gate.passes("relax", 2000.0) and not gate.passes("step", 10.0)
    assert gate.has_passed("relax") and not gate.has_passed("step")
    assert gate.passes("relax", 20_000.0) and gate.passes("step", 1000.0)


def test_what_is_stored_anew_does_not_undo_what_has_passed() -> None:
    """The successor of a store that was put aside numbers anew, and has findings later, with lower costs."""
    gate = CostGate(1000.0, 10.0)
    assert gate.passes("relax", 20_000.0)
    gate.know("relax", 2000.0)
    assert not gate.passes("relax", 30_000.0)


def bare_call(row: int, function: str = "solve", severity_us: float = 5000.0) -> ExplainedCall:
    severe = SevereCall((0, 1, 3, row), function, 0, "node7", 3, 1, False, severity_us, 7.0)
    return ExplainedCall(severe, "", "")


def test_the_most_severe_of_those_that_come_together_passes_and_the_next_one_reports_of_the_others() -> None:
    gate = CallGate()
    ((first, suppressed),) = gate.passing(
        [bare_call(1), bare_call(2, severity_us=9000.0), bare_call(3)], 100.0
    )
    assert (first.call.id, suppressed) == ("0:1:3:2", 0)
    assert gate.passing([bare_call(4)], 100.0 + CALLS_PERIOD_S - 0.1) == []
    assert gate.passing([bare_call(5)], 100.0 + CALLS_PERIOD_S) == [(bare_call(5), 3)]
    assert gate.passing([bare_call(6)], 100.0 + 2 * CALLS_PERIOD_S) == [(bare_call(6), 0)]


def test_functions_do_not_hold_up_each_other() -> None:
    gate = CallGate()
    gate.passing([bare_call(1)], 0.0)
    assert gate.passing([bare_call(2), bare_call(3, "write")], 1.0) == [(bare_call(3, "write"), 0)]


arrivals = st.lists(
    st.tuples(st.floats(0, 8), st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=5)),
    max_size=20,
)


@given(arrivals)
def test_each_call_passes_or_is_counted_and_none_too_soon(arrivals: Sequence[Any]) -> None:
    gate, now_s, passed, came, row = CallGate(), 0.0, [], 0, 0
    for pause_s, calls in arrivals:
        now_s += pause_s
        made = []
        for function, severity in calls:
            row += 1
            made.append(bare_call(row, function, severity))
        came += len(made)
        passed += [(now_s, one, suppressed) for one, suppressed in gate.passing(made, now_s)]
    for function in "ab":
        times = [at_s for at_s, one, _ in passed if one.call.function == function]
        assert all(later - sooner >= CALLS_PERIOD_S for sooner, later in itertools.pairwise(times))
        closing = gate.passing([bare_call(row + 1, function)], now_s + 2 * CALLS_PERIOD_S)
        passed += [(now_s, one, suppressed) for one, suppressed in closing]
    assert sum(1 + suppressed for *_, suppressed in passed) == came + 2
