"""Alerts of a run as they go out: the loop around ``Alerting``, with broker, store and sinks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
from sqlalchemy import Engine

from chimbuko.provenance.alerts.alert import Alert
from chimbuko.provenance.alerts.alerting import Alerting
from chimbuko.provenance.alerts.calls import CallAlert
from chimbuko.provenance.alerts.events import (
    AgentsSeen,
    Event,
    LookAtAgents,
    LookForStandstills,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.alerts.sink import Sink
from chimbuko.provenance.alerts.sinkqueue import SinkQueue
from chimbuko.provenance.incidents.marks import SILENT, marks_of, silent_functions
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.events import StoreEvent
from chimbuko.runtime.protocol.membership import silent_agents
from chimbuko.runtime.protocol.runbroker import RunBroker


class AlertService:
    """Alerts of a run, which nobody waits for.

    Parameters
    ----------
    run_id
        Run that the alerts are about.
    least_us
        Severity or cost from which a finding is worth an alert.
    report
        Takes a line for the user.
    """

    def __init__(
        self,
        run_id: str,
        least_us: float,
        broker: RunBroker,
        sinks: Sequence[Sink],
        report: Callable[[str], None],
    ) -> None:
        self._run_id = run_id
        self._alerting = Alerting(run_id, least_us)
        self._broker = broker
        self._queues = [SinkQueue(sink, report) for sink in sinks]
        self._unsent: deque[Send] = deque()
        """Alerts that wait until the broker says where the dashboard is."""

    def take(self, event: StoreEvent, engine: Engine) -> None:
        """Send the alerts that an event deserves.

        Raises
        ------
        redis.RedisError
            The broker is away; no alert is lost.
        StoreError
            The store cannot be read.
        """
        self._handle(event, engine)
        if self._unsent:
            self._send()

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        for queue in self._queues:
            queue.stop()

    def _handle(self, event: Event, engine: Engine) -> None:
        for instruction in self._alerting.handle(event):
            match instruction:
                case Send():
                    if not self._is_silent(instruction.alert, engine):
                        self._unsent.append(instruction)
                case LookAtAgents():
                    self._handle(self._agents(), engine)
                case LookForStandstills():
                    found = list(standstills(Provenance(engine, self._run_id)))
                    self._handle(StandstillsSeen(time.monotonic(), found), engine)

    def _is_silent(self, alert: Alert, engine: Engine) -> bool:
        """Return whether somebody has marked what an alert is about as known, or to be ignored."""
        reader = Provenance(engine, self._run_id).reader
        marks = marks_of(reader)
        mark = marks.get(alert.about)
        if mark is not None and mark.state in SILENT:
            return True
        # Whatever costs time by a function again and again is known, not each call of it.
        return isinstance(alert, CallAlert) and (alert.program, alert.function) in silent_functions(
            reader, marks
        )

    def _agents(self) -> AgentsSeen:
        now_us = time.time_ns() // 1000
        silent_us = silent_agents(self._broker)
        silent_s = {agent: max(now_us - since_us, 1) / 1e6 for agent, since_us in silent_us.items()}
        return AgentsSeen(time.monotonic(), silent_s)

    def _send(self) -> None:
        address = cast("bytes | None", self._broker.client.get(self._broker.keys.dashboard))
        run = f"{address.decode()}r/{self._run_id}/" if address else ""
        while self._unsent:
            one = self._unsent.popleft()
            alert = msgspec.structs.replace(one.alert, dashboard=f"{run}{one.page}") if run else one.alert
            body = msgspec.json.encode(alert)
            for queue in self._queues:
                queue.put(body)
