"""Alerts of one run: severe calls, what nodes took from ranks and what recurs, once they are stored and new
there, silent agents, and deadlocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import msgspec
from sqlalchemy import Engine, select

from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.core.calls.record import StreamHealth
from chimbuko.provenance.alerts.deadlocks import DeadlockAlert, DeadlockGate
from chimbuko.provenance.alerts.gate import Alert, AlertGate, CallKey, SevereCall, severe_calls
from chimbuko.provenance.alerts.nodelosses import LossAlert, LossGate
from chimbuko.provenance.alerts.published import MetricAlert
from chimbuko.provenance.alerts.recurring import FindingAlert, FindingGate
from chimbuko.provenance.alerts.silence import AgentAlert, SilenceGate
from chimbuko.provenance.alerts.sinks import AlertSender, Deliver
from chimbuko.provenance.incidents.incidentlist import Incidents, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.encode import CALL_KEY
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.statements import rows_of
from chimbuko.provenance.store.tables import CALLS, RUNS
from chimbuko.runtime.protocol.membership import silent_agents
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker

SILENCE_LOOK_S = 1.0
"""Between two looks whether agents are silent."""
DEADLOCK_LOOK_S = 5.0
"""Between two looks, while ranks are silent, whether they wait for each other: one reads what all are in."""


class Alerting:
    """Sends alerts of a run, each call's once, also by a writer that was started again.

    Parameters
    ----------
    least_us
        Severity from which on a call is worth an alert, and cost from which on other findings are, in µs.
    hooks
        What takes alerts, by what it is called.
    report
        Takes a line for the user.
    """

    def __init__(
        self,
        run_id: str,
        broker: RunBroker,
        least_us: float,
        hooks: Mapping[str, Deliver],
        report: Callable[[str], None],
    ) -> None:
        self._run_id = run_id
        self._broker = broker
        self._least_us = least_us
        self._gate = AlertGate()
        self._findings = FindingGate(least_us)
        self._losses = LossGate(least_us)
        self._silence = SilenceGate()
        self._looked_s = -SILENCE_LOOK_S
        self._deadlocks = DeadlockGate()
        self._looked_for_deadlocks_s = -DEADLOCK_LOOK_S
        self._dashboard = ""
        self._couriers = [AlertSender(name, deliver, report) for name, deliver in hooks.items()]

    def new(self, engine: Engine, batches: Sequence[RecordBatch]) -> list[SevereCall]:
        """Severe calls that the store has not yet, or not as severe; before they are stored.

        Raises ``redis.RedisError`` where the broker is away, and ``StoreError``.
        """
        found = severe_calls(batches, self._least_us)
        if not found:
            return []
        self._find_dashboard()
        known = self._stored(engine, list(found))
        return [call for key, call in found.items() if key not in known]

    def send(self, calls: Sequence[SevereCall], explained: Callable[[str], tuple[str, str]]) -> None:
        """Send alerts of these calls, which are stored now; some are only counted.

        Parameters
        ----------
        explained
            Gives id and sentence of the incident that a call belongs to, by the call's id; empty ones where
            that is not known.
        """
        for call, suppressed in self._gate.passing(calls, time.monotonic()):
            self._deliver(self._alert(call, suppressed, *explained(call.id)))

    def know(self, stored: Incidents) -> None:
        """What the store has already of what recurs, and of what nodes took: it was reported when it came
        there.
        """
        self._findings.know(one.recurrence for one in stored.recurrences())
        self._losses.know(stored.of_nodes())

    def send_recurring(self, stored: Sequence[RecurrenceSummary]) -> None:
        """Send an alert of each finding that is new, or much more costly than its last alert said.

        Raises ``redis.RedisError`` where the broker is away; none is lost by that.
        """
        page = self._incident_page()
        for one, is_growth in self._findings.passing(stored):
            found = one.recurrence
            alert = FindingAlert(
                run=self._run_id,
                finding=one.id,
                habit=found.kind.value,
                program=found.program,
                function=found.function,
                calls=found.calls,
                cost_us=found.cost_us,
                is_growth=is_growth,
                sentence=one.sentence,
                dashboard=page and page + one.id,
            )
            self._deliver(alert)

    def send_losses(self, incidents: Sequence[Incident]) -> None:
        """Send an alert of each incident that is what a node took from ranks, if it is new and severe.

        Raises ``redis.RedisError`` where the broker is away.
        """
        losses = [one for one in incidents if one.is_loss]
        page = self._incident_page() if losses else ""
        for one in self._losses.passing(losses):
            alert = LossAlert(
                run=self._run_id,
                incident=one.id,
                cause=one.kind,
                node=one.node,
                program=one.program,
                ranks=sorted({loss.rank for loss in one.losses}),
                begin_us=one.begin_us,
                cost_us=one.cost_us,
                sentence=sentence(one),
                dashboard=page and page + one.id,
            )
            self._deliver(alert)

    def send_metrics(self, stored: Sequence[MetricFinding]) -> None:
        """Send an alert of each finding in published quantities that is new in the store.

        Raises ``redis.RedisError`` where the broker is away; none is lost by that.
        """
        page = self._incident_page()
        for one in stored:
            found = one.finding
            alert = MetricAlert(
                run=self._run_id,
                finding=one.id,
                problem=found.kind.value,
                quantity=found.quantity,
                ranks=found.ranks,
                since_step=found.since,
                step=found.step,
                found_us=found.found_us,
                sentence=one.sentence,
                dashboard=page and page + one.id,
            )
            self._deliver(alert)

    def look_for_silence(self) -> None:
        """Send an alert of each agent that fell silent, or is heard again, as services of many nodes say.

        Raises ``redis.RedisError`` where the broker is away.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < SILENCE_LOOK_S:
            return
        self._looked_s = now_s
        changes = list(self._silence.changes(silent_agents(self._broker), time.time_ns() // 1000))
        if changes:
            self._find_dashboard()
        page = f"{self._dashboard}r/{self._run_id}/health" if self._dashboard else ""
        for agent, silent_s in changes:
            alert = AgentAlert(self._run_id, agent, silent_s > 0.0, silent_s, page)
            self._deliver(alert)

    def note(self, health: Iterable[StreamHealth]) -> None:
        """What agents say of their ranks, as it is stored."""
        self._deadlocks.note(health)

    def look_for_deadlocks(self, engine: Engine) -> None:
        """Send an alert of each program all ranks of which wait for each other, as the store has them.

        Raises ``redis.RedisError`` where the broker is away, and ``StoreError``.
        """
        now_s = time.monotonic()
        is_early = now_s - self._looked_for_deadlocks_s < DEADLOCK_LOOK_S
        if is_early or not self._deadlocks.may_have_some:
            return
        self._looked_for_deadlocks_s = now_s
        for one in self._deadlocks.new(standstills(Provenance(engine, self._run_id))):
            assert one.finding is not None
            self._find_dashboard()
            page = f"{self._dashboard}r/{self._run_id}/health" if self._dashboard else ""
            ranks, found = len(one.stacks), one.finding
            alert = DeadlockAlert(self._run_id, one.program, ranks, found.text, found.advice, page)
            self._deliver(alert)

    def _deliver(self, alert: msgspec.Struct) -> None:
        """To each of those who are alerted."""
        body = msgspec.json.encode(alert)
        for courier in self._couriers:
            courier.send(body)

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        for courier in self._couriers:
            courier.stop()

    def _alert(self, call: SevereCall, suppressed: int, incident: str, sentence: str) -> Alert:
        program, rank, *_ = call.key
        return Alert(
            run=self._run_id,
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
            incident=incident,
            sentence=sentence,
            dashboard=self._address(call),
        )

    def _incident_page(self) -> str:
        """What addresses of incidents begin with; empty where there is no dashboard."""
        self._find_dashboard()
        return f"{self._dashboard}r/{self._run_id}/incident/" if self._dashboard else ""

    def _find_dashboard(self) -> None:
        address = cast("bytes | None", self._broker.client.get(self._broker.keys.dashboard))
        self._dashboard = (address or b"").decode()

    def _address(self, call: SevereCall) -> str:
        program, _, rest = call.id.partition(":")
        return f"{self._dashboard}r/{self._run_id}/call/{program}/{rest}" if self._dashboard else ""

    def _stored(self, engine: Engine, keys: Sequence[CallKey]) -> set[CallKey]:
        """Those that the store has as severe already."""
        run = select(RUNS.c.number).where(RUNS.c.id == self._run_id)
        key = CALL_KEY[1:]
        with store_errors(engine), engine.connect() as connection:
            number = connection.execute(run).scalar_one()
            rows = rows_of(connection, CALLS, (*key, "is_anomaly", "severity_us"), number, key, keys)
            return {
                cast(CallKey, tuple(place))
                for *place, is_anomaly, severity_us in rows
                if is_anomaly and severity_us >= self._least_us
            }
