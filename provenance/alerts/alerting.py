"""Alerts of one run: what is stored goes to all kinds of alert, which say what is to be sent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

import msgspec

from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.wording import Bound
from chimbuko.core.statemachine import Story
from chimbuko.core.units import format_duration_us
from chimbuko.provenance.alerts.events import (
    AgentsSeen,
    Alert,
    Event,
    Instruction,
    LookAtAgents,
    LookForStandstills,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
from chimbuko.provenance.write.events import (
    ExplainedCall,
    HealthStored,
    IncidentsStored,
    MetricFindingsStored,
    RecurrencesStored,
    Resumed,
    SevereCallsStored,
    Tick,
)


class AlertKind:
    """One kind of alert: which events of a run deserve one, and what it says. A state machine.

    Parameters
    ----------
    run
        Id of the run.
    least_us
        Severity or cost from which a finding is worth an alert.
    """

    def __init__(self, run: str, least_us: float) -> None:
        self.run = run
        self.least_us = least_us

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Take an event, and yield what is to be done."""
        raise NotImplementedError

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""


class CostGate:
    """Costs that findings had when they passed last.

    ::

        BELOW ──costs least_us ─▶ passes──▶ PASSED ─┐ costs growth times as much ─▶ passes
                                              ▲─────┘

    Parameters
    ----------
    least_us
        Cost from which a finding passes.
    growth
        Factor by which the cost must have grown for the finding to pass again; by default it never does.
    """

    def __init__(self, least_us: float, growth: float = math.inf) -> None:
        self._least_us = least_us
        self._growth = growth
        self._passed_us: dict[Hashable, float] = {}

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        assert all(cost_us >= self._least_us for cost_us in self._passed_us.values()), "it cost too little"

    def know(self, finding: Hashable, cost_us: float) -> None:
        """Take a finding for passed whose cost was reported before."""
        if cost_us >= self._least_us:
            self._passed_us.setdefault(finding, cost_us)

    def has_passed(self, finding: Hashable) -> bool:
        """Whether the finding has passed before."""
        return finding in self._passed_us

    def passes(self, finding: Hashable, cost_us: float) -> bool:
        """Whether the finding passes now that it has this cost."""
        before_us = self._passed_us.get(finding)
        if cost_us < (self._least_us if before_us is None else self._growth * before_us):
            return False
        self._passed_us[finding] = cost_us
        return True


AGENTS_LOOK_S = 1.0
"""Time between two looks whether agents are silent."""


class AgentAlert(Alert, frozen=True, kw_only=True, tag="agent"):
    """Alert about an agent of which nothing is heard, or that is heard again."""

    agent: str
    """``agent-`` and the name of its node."""
    is_silent: bool
    """Whether the agent is silent; false when it is heard of again."""
    silent_s: float
    """Time since it was heard last; 0 if it is heard."""


class AgentAlerts(AlertKind):
    """Alerts about changes among the agents that are silent, as services of many nodes say.

    ::

        HEARD ──AgentsSeen, silent ─▶ Send──▶ SILENT ──AgentsSeen, not silent ─▶ Send──▶ HEARD
    """

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._silent: frozenset[str] = frozenset()
        self._looked_s = -math.inf

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each agent that fell silent, or is heard again."""
        match event:
            case Tick(now_s) if now_s - self._looked_s >= AGENTS_LOOK_S:
                self._looked_s = now_s
                yield LookAtAgents()
            case AgentsSeen(_, silent_s):
                before, self._silent = self._silent, frozenset(silent_s)
                for agent in sorted(self._silent - before):
                    told = (
                        f"nothing has been heard of {agent} for {format_duration_us(1e6 * silent_s[agent])}"
                    )
                    yield self._alert(told, agent, silent_s[agent])
                for agent in sorted(before - self._silent):
                    yield self._alert(f"{agent} is heard again", agent, 0.0)

    def _alert(self, told: str, agent: str, silent_s: float) -> Send:
        alert = AgentAlert(
            run=self.run, sentence=told, agent=agent, is_silent=silent_s > 0.0, silent_s=silent_s
        )
        return Send(alert, "health")


STANDSTILL_LOOK_S = 5.0
"""Time between two looks whether silent ranks wait for each other; a look reads what all ranks are in."""


class DeadlockAlert(Alert, frozen=True, kw_only=True, tag="deadlock"):
    """Alert about a program all ranks of which wait for each other."""

    program: int
    ranks: int
    """Number of its ranks."""
    advice: str
    """Advice on what to look for."""


class DeadlockAlerts(AlertKind):
    """Alerts about deadlocks that were not there at the last look.

    ::

        FREE ──StandstillsSeen, locked ─▶ Send──▶ LOCKED ──StandstillsSeen, not locked──▶ FREE
    """

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._silent: set[tuple[int, int]] = set()
        """Program and number of ranks that are silent. Without one there is no deadlock to look for."""
        self._locked: frozenset[int] = frozenset()
        """Programs that are in a deadlock."""
        self._looked_s = -math.inf

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each program all ranks of which wait for each other."""
        match event:
            case HealthStored(_, health):
                for one in health:
                    act = self._silent.discard if one.silence is None else self._silent.add
                    act((one.program, one.rank))
            case Tick(now_s) if self._silent and now_s - self._looked_s >= STANDSTILL_LOOK_S:
                self._looked_s = now_s
                yield LookForStandstills()
            case StandstillsSeen():
                yield from self._new(event)

    def _new(self, event: StandstillsSeen) -> Iterator[Send]:
        locked = [(one, one.finding) for one in event.found if one.finding is not None]
        before, self._locked = self._locked, frozenset(one.program for one, _ in locked)
        for one, found in sorted(locked, key=lambda each: each[0].program):
            if one.program not in before:
                alert = DeadlockAlert(
                    run=self.run,
                    sentence=found.text,
                    program=one.program,
                    ranks=len(one.stacks),
                    advice=found.advice,
                )
                yield Send(alert, "health")


CALLS_PERIOD_S = 10.0
"""Time after an alert in which there is no other one of the same function."""


class CallAlert(Alert, frozen=True, kw_only=True, tag="call"):
    """Alert about a call; times as in ``CallRecord``."""

    call: str
    """Id of the call."""
    function: str
    program: int
    rank: int
    thread: int
    node: str
    step: int
    entry_us: int
    is_open: bool
    """Whether the call had not ended yet."""
    severity_us: float
    """Time lost against what was expected."""
    score: float
    suppressed: int
    """Number of other calls of the function that would have been alerts since its last one."""
    incident: str
    """Id of the incident that the call is part of, as far as it is known now; empty while it is not."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts."""
        return self.incident


class _Function(msgspec.Struct):
    reported_at_s: float
    suppressed: int


class CallGate:
    """Lets the most severe call of a function pass, and then none of it for a while; those are counted.

    ::

        OPEN ──a call ─▶ passes──▶ CLOSED ──CALLS_PERIOD_S──▶ OPEN
                                   │   ▲
                                   └───┘ a call ─▶ counted
    """

    def __init__(self) -> None:
        self._functions: dict[tuple[int, str], _Function] = {}

    def passing(self, calls: Sequence[ExplainedCall], now_s: float) -> list[tuple[ExplainedCall, int]]:
        """Return the calls that pass, each with the number of others of its function that did not."""
        passing: list[tuple[ExplainedCall, int]] = []
        for one in sorted(calls, key=lambda one: -one.call.severity_us):
            name = one.call.key[0], one.call.function
            known = self._functions.get(name)
            if known is not None and now_s - known.reported_at_s < CALLS_PERIOD_S:
                known.suppressed += 1
                continue
            passing.append((one, known.suppressed if known else 0))
            self._functions[name] = _Function(now_s, 0)
        return passing


class CallAlerts(AlertKind):
    """Alerts about severe calls, one for each call that is new in the store."""

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._gate = CallGate()

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each severe call that passes."""
        if isinstance(event, SevereCallsStored):
            for one, suppressed in self._gate.passing(event.calls, event.time_s):
                yield self._alert(one, suppressed)

    def _alert(self, one: ExplainedCall, suppressed: int) -> Send:
        call = one.call
        program, rank, *_ = call.key
        alert = CallAlert(
            run=self.run,
            sentence=one.sentence,
            call=call.id,
            function=call.function,
            program=program,
            rank=rank,
            thread=call.thread,
            node=call.node,
            step=call.step,
            entry_us=call.entry_us,
            is_open=call.is_open,
            severity_us=call.severity_us,
            score=call.score,
            suppressed=suppressed,
            incident=one.incident,
        )
        return Send(alert, f"call/{program}/{call.id.partition(':')[2]}")


class MetricAlert(Alert, frozen=True, kw_only=True, tag="metric"):
    """Alert about a published quantity."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``global drift``, ``local drift``, ``departure`` or ``not a number``."""
    quantity: str
    ranks: tuple[int, ...]
    """Ranks that stand out; none if all are alike."""
    since_step: int
    """Step of the program at which it began."""
    step: int
    """Step of the program at which it was found."""
    found_us: int
    """Time at which that step was published, in µs since 1970."""


class MetricAlerts(AlertKind):
    """Alerts about published quantities; the store remembers which of them were there before."""

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each finding that is new in the store."""
        if isinstance(event, MetricFindingsStored):
            for one in event.findings:
                found = one.finding
                alert = MetricAlert(
                    run=self.run,
                    sentence=one.sentence,
                    finding=one.id,
                    type=found.kind.value,
                    quantity=found.quantity,
                    ranks=found.ranks,
                    since_step=found.since,
                    step=found.step,
                    found_us=found.found_us,
                )
                yield Send(alert, f"incident/{one.id}")


class LossAlert(Alert, frozen=True, kw_only=True, tag="loss"):
    """Alert about an incident whose origin is no call."""

    incident: str
    """Id of the incident in the run."""
    type: str
    """Cause of the loss, ``stopped`` or ``waited for core``."""
    node: str
    program: int
    ranks: list[int]
    """Ranks that were kept from running."""
    begin_us: int
    """Time at which the loss began, in µs since 1970."""
    cost_us: float
    """Core time lost so far, on all ranks."""
    bound: Bound
    """How sure that time is."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts."""
        return self.incident


class LossAlerts(AlertKind):
    """Alerts about incidents whose origin is no call, once they have cost enough."""

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._gate = CostGate(least_us)

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        self._gate.validate_state()

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each such incident that is new and severe."""
        match event:
            case Resumed(_, incidents):
                for one in incidents:
                    self._gate.know(one.number, one.cost_us)
            case IncidentsStored(_, incidents):
                for one in incidents:
                    if one.is_loss and self._gate.passes(one.number, one.cost_us):
                        yield self._alert(one)

    def _alert(self, one: Incident) -> Send:
        alert = LossAlert(
            run=self.run,
            sentence=sentence(one),
            incident=one.id,
            type=one.kind,
            node=one.node,
            program=one.program,
            ranks=sorted({loss.rank for loss in one.losses}),
            begin_us=one.begin_us,
            cost_us=one.cost_us,
            bound=one.bound,
        )
        return Send(alert, f"incident/{one.id}")


MUCH_MORE = 10.0
"""Factor by which the cost must exceed that of the last alert for another one."""


class RecurrenceAlert(Alert, frozen=True, kw_only=True, tag="finding"):
    """Alert about something that recurs."""

    finding: str
    """Id of the finding in the run."""
    type: str
    """``slow mode``, ``drift``, ``interruptions``, ``slow ranks``, ``slow threads`` or
    ``deadlock``."""
    program: int
    function: str
    """Function of the calls; empty if they are of several."""
    calls: int
    """Number of calls that the finding is about so far."""
    cost_us: float
    """Core time that they lost together."""
    is_growth: bool
    """Whether there was an alert about the finding before, when it had cost a tenth or less."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts."""
        return self.finding


class RecurrenceAlerts(AlertKind):
    """Alerts about what recurs."""

    def __init__(self, run: str, least_us: float) -> None:
        super().__init__(run, least_us)
        self._gate = CostGate(least_us, MUCH_MORE)

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        self._gate.validate_state()

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each finding that is new, or much more costly than its last alert said."""
        match event:
            case Resumed(_, _, recurrences):
                for one in recurrences:
                    self._gate.know(one.recurrence.key, one.recurrence.cost_us)
            case RecurrencesStored(_, recurrences):
                for one in recurrences:
                    is_growth = self._gate.has_passed(one.recurrence.key)
                    if self._gate.passes(one.recurrence.key, one.recurrence.cost_us):
                        yield self._alert(one, is_growth)

    def _alert(self, one: RecurrenceSummary, is_growth: bool) -> Send:
        found = one.recurrence
        alert = RecurrenceAlert(
            run=self.run,
            sentence=one.sentence,
            finding=one.id,
            type=found.kind.value,
            program=found.program,
            function=found.function,
            calls=found.calls,
            cost_us=found.cost_us,
            is_growth=is_growth,
        )
        return Send(alert, f"incident/{one.id}")


KINDS: tuple[type[AlertKind], ...] = (
    CallAlerts,
    RecurrenceAlerts,
    LossAlerts,
    MetricAlerts,
    AgentAlerts,
    DeadlockAlerts,
)


class Alerting:
    """Alerts of a run: a state machine without a clock, a store, a broker or a sink.

    It is made up of one for each kind of alert, each of which draws its own states:
    those of functions, findings, incidents, agents and programs, by what was reported of them.

    Parameters
    ----------
    run
        Id of the run.
    least_us
        Severity or cost from which a finding is worth an alert.
    """

    def __init__(self, run: str, least_us: float) -> None:
        self._kinds = [kind(run, least_us) for kind in KINDS]
        self.story = Story()

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        for kind in self._kinds:
            kind.validate_state()

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event, and return the alerts that it deserves, and where to look."""
        instructions = [one for kind in self._kinds for one in kind.handle(event)]
        for one in instructions:
            sent = type(one.alert if isinstance(one, Send) else one).__name__
            self.story.note(event.time_s, type(event).__name__, sent)
        return instructions
