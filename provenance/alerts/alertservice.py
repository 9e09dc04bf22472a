"""Alerts of a run as they go out: the loop around ``Alerting``, with broker, store and a queue for each
sink.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
from sqlalchemy import Engine

from chimbuko.provenance.alerts.alerting import Alerting, CallAlert
from chimbuko.provenance.alerts.events import (
    AgentsSeen,
    Alert,
    Event,
    LookAtAgents,
    LookForStandstills,
    Send,
    StandstillsSeen,
)
from chimbuko.provenance.alerts.sinks import Sink
from chimbuko.provenance.incidents.marks import SILENT, marks_of, silent_functions
from chimbuko.provenance.incidents.standstill import standstills
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.events import StoreEvent
from chimbuko.runtime.protocol.membership import silent_agents
from chimbuko.runtime.protocol.runbroker import RunBroker

MOST_WAITING = 100
"""Maximum number of alerts that wait; more are left out while a sink does not take them."""
PAUSES_S = (1.0, 4.0, 16.0)
"""Pause before each further try."""
STOP_S = 5.0
"""Maximum time at the end of the run to go on handing over what waits."""


class SinkQueue:
    """Hands alerts over one after the other, and tries again where it fails.

    Parameters
    ----------
    report
        Takes a line for the user: once that alerts are not taken, and once that they are again.
    """

    def __init__(self, sink: Sink, report: Callable[[str], None]) -> None:
        self._sink = sink
        self._report = report
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._is_stopping = threading.Event()
        self._is_failing = False
        self._stop_at_s = 0.0
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name=sink.name, daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Hand an alert over soon; it is left out where too many wait already."""
        try:
            self._waiting.put_nowait(body)
        except queue.Full:
            self._lost += 1

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        self._stop_at_s = time.monotonic() + STOP_S
        self._is_stopping.set()
        # Where it is full there is no need to wake the thread.
        if not self._waiting.full():
            self._waiting.put_nowait(None)
        self._thread.join(STOP_S)
        lost = self._lost + self._waiting.qsize()
        if lost:
            self._report(f"{lost} alerts were not taken by the {self._sink.name}")

    def _work(self) -> None:
        while not (self._is_stopping.is_set() and (self._waiting.empty() or self._is_late)):
            body = self._waiting.get()
            if body is not None and not self._is_taken(body):
                self._lost += 1

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._stop_at_s

    def _is_taken(self, body: bytes) -> bool:
        for pause_s in (*PAUSES_S, 0.0):
            try:
                self._sink.take(body)
            except Exception as error:
                # Whatever it was: the thread goes on, so that later alerts are taken.
                if not self._is_failing:
                    self._report(f"the {self._sink.name} takes no alerts: {error}; trying again")
                self._is_failing = True
                if self._is_stopping.wait(pause_s):
                    return False
            else:
                if self._is_failing:
                    self._report(f"the {self._sink.name} takes alerts again")
                self._is_failing = False
                return True
        return False


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
        for one in self._queues:
            one.stop()

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
            for sink_queue in self._queues:
                sink_queue.put(body)
