"""Alerts about severe calls: at most one of each function in ten seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from sqlalchemy import Engine, select

from chimbuko.core.calls.record import call_id
from chimbuko.provenance.alerts.alert import Alert, AlertedRun, AlertKind
from chimbuko.provenance.alerts.events import Event, Explained, RecordsCame
from chimbuko.provenance.store.encode import CALL_KEY
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.statements import rows_of
from chimbuko.provenance.store.tables import CALLS, RUNS
from chimbuko.runtime.protocol.messages import RecordBatch

PERIOD_S = 10.0
"""Time after an alert in which there is no other one of the same function."""

CallKey = tuple[int, int, int, int]
"""Program, rank, and step and row of the ENTRY."""


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


@dataclass(frozen=True)
class SevereCall:
    """A call that is severe enough."""

    key: CallKey
    function: str
    thread: int
    node: str
    step: int
    entry_us: int
    is_open: bool
    severity_us: float
    score: float

    @property
    def id(self) -> str:
        """Id of the call."""
        return call_id(*self.key)


def severe_calls(batches: Iterable[RecordBatch], least_us: float) -> dict[CallKey, SevereCall]:
    """Return abnormal calls with at least this severity; of several revisions of one the last."""
    found: dict[CallKey, SevereCall] = {}
    for batch in batches:
        heads, health = batch.records.head_rows(), batch.health
        for at in np.flatnonzero((heads.is_anomaly != 0) & (heads.severity_us >= least_us)).tolist():
            head = heads[at]
            key = health.program, health.rank, int(head.begin_step), int(head.begin_row)
            found[key] = SevereCall(
                key=key,
                function=batch.records.functions[int(head.function)],
                thread=int(head.thread),
                node=health.node,
                step=int(head.step),
                entry_us=int(head.entry_us),
                is_open=not head.exit_us,
                severity_us=float(head.severity_us),
                score=float(head.score),
            )
    return found


@dataclass
class _Function:
    reported_at_s: float
    suppressed: int


class CallGate:
    """Lets the most severe call of a function pass, and then none of it for a while; those are counted."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, str], _Function] = {}

    def passing(self, calls: Sequence[SevereCall], now_s: float) -> list[tuple[SevereCall, int]]:
        """Return the calls that pass, each with the number of others of its function that did not."""
        passing: list[tuple[SevereCall, int]] = []
        for call in sorted(calls, key=lambda call: -call.severity_us):
            name = call.key[0], call.function
            known = self._functions.get(name)
            if known is not None and now_s - known.reported_at_s < PERIOD_S:
                known.suppressed += 1
                continue
            passing.append((call, known.suppressed if known else 0))
            self._functions[name] = _Function(now_s, 0)
        return passing


class CallAlerts(AlertKind):
    """Alerts about calls that the store does not have, or not as severe; each call's once, also by a writer
    that was started again.
    """

    def __init__(self, run: AlertedRun) -> None:
        super().__init__(run)
        self._gate = CallGate()
        self._new: list[SevereCall] = []
        self._page = ""

    @property
    def is_urgent(self) -> bool:
        """Whether severe calls came and wait for their incidents."""
        return bool(self._new)

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each severe call that passes, once it is stored."""
        match event:
            case RecordsCame(engine, batches):
                self._new = self._not_stored(engine, severe_calls(batches, self.run.least_us))
                # Asked before they are stored: who cannot say where the page is sends them later.
                self._page = self.run.page("call") if self._new else ""
            case Explained(explanation):
                new, self._new = self._new, []
                for call, suppressed in self._gate.passing(new, time.monotonic()):
                    yield self._alert(call, suppressed, *explanation(call.id))

    def _alert(self, call: SevereCall, suppressed: int, incident: str, sentence: str) -> Alert:
        program, rank, *_ = call.key
        in_program = call.id.partition(":")[2]
        return CallAlert(
            run=self.run.id,
            sentence=sentence,
            dashboard=self._page and f"{self._page}/{program}/{in_program}",
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
        )

    def _not_stored(self, engine: Engine, found: dict[CallKey, SevereCall]) -> list[SevereCall]:
        """Return those that the store does not have as severe already."""
        if not found:
            return []
        run = select(RUNS.c.number).where(RUNS.c.id == self.run.id)
        key = CALL_KEY[1:]
        with store_errors(engine), engine.connect() as connection:
            number = connection.execute(run).scalar_one()
            rows = rows_of(connection, CALLS, (*key, "is_anomaly", "severity_us"), number, key, list(found))
            stored = {
                cast(CallKey, tuple(place))
                for *place, is_anomaly, severity_us in rows
                if is_anomaly and severity_us >= self.run.least_us
            }
        return [call for place, call in found.items() if place not in stored]
