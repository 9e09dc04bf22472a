"""Alerts as instructions of a state machine: one for each cause, in any order of events."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.monitor.report.finding import Finding
from chimbuko.provenance.alerts.agents import LOOK_S as AGENTS_S
from chimbuko.provenance.alerts.agents import AgentAlert
from chimbuko.provenance.alerts.alerting import Alerting
from chimbuko.provenance.alerts.calls import PERIOD_S, CallAlert
from chimbuko.provenance.alerts.deadlocks import LOOK_S as DEADLOCKS_S
from chimbuko.provenance.alerts.deadlocks import DeadlockAlert
from chimbuko.provenance.alerts.events import (
    AgentsSeen,
    Event,
    Instruction,
    LookAtAgents,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.alerts.recurrences import MUCH_MORE, RecurrenceAlert
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
                period_s = AGENTS_S if isinstance(one, LookAtAgents) else DEADLOCKS_S
                assert self.now_s - self.looks.get(type(one), -100.0) >= period_s
                assert isinstance(one, LookAtAgents) or self.has_silent_rank
                self.looks[type(one)] = self.now_s
        return [one.alert for one in found if isinstance(one, Send)]

    @rule(passed_s=st.sampled_from([0.5, 1.0, 4.0, 11.0]))
    def tick(self, passed_s: float) -> None:
        self.now_s += passed_s
        assert self.handle(Tick(self.now_s)) == []
        assert self.now_s - self.looks[LookAtAgents] < AGENTS_S

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
        self.now_s += PERIOD_S
        self.store_calls([(function, 1) for function in FUNCTIONS])
        assert sum(1 + one.suppressed for _, one in self.call_alerts) == self.calls
        for function in FUNCTIONS:
            times = [at_s for at_s, one in self.call_alerts if one.function == function]
            assert all(later - sooner >= PERIOD_S for sooner, later in itertools.pairwise(times))
        assert self.core.story.lines()


TestAlerting = AlertingMachine.TestCase
TestAlerting.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
