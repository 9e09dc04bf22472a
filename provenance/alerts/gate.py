"""Which recorded calls are worth an alert, and when: no clock, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from chimbuko.core.calls.record import call_id
from chimbuko.runtime.protocol.messages import RecordBatch

PERIOD_S = 10.0
"""At most one alert of each function in so many seconds."""

CallKey = tuple[int, int, int, int]
"""Program, rank, and step and row of the ENTRY."""


class Alert(msgspec.Struct, frozen=True, tag_field="kind", tag="call"):
    """What is sent of a call; times as in ``CallRecord``."""

    run: str
    """Its id."""
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
    """The call had not ended yet."""
    severity_us: float
    """Time lost against what was expected."""
    score: float
    suppressed: int
    """Other calls of the function that would have been alerts since the last one of it."""
    dashboard: str
    """Address of the call on the dashboard, without the token; empty where there is no dashboard."""
    incident: str
    """Id of the incident that the call is part of, as far as that is known now; empty while it is not."""
    sentence: str
    """What is known of that: who was late, and who waited; empty while it is not."""


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
    """Abnormal calls with at least this severity; of several revisions of one the last."""
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


class AlertGate:
    """Lets the most severe call of a function pass, and then none of it for a while; those are counted."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, str], _Function] = {}

    def passing(self, calls: Sequence[SevereCall], now_s: float) -> list[tuple[SevereCall, int]]:
        """Which of the calls that came now pass, each with how many others of its function did not."""
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
