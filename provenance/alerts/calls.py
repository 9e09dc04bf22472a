"""Alerts about severe calls: at most one of each function in ten seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chimbuko.provenance.alerts.alertkind import AlertKind
from chimbuko.provenance.alerts.events import Alert, Event, Instruction, Send
from chimbuko.provenance.write.events import ExplainedCall, SevereCallsStored

PERIOD_S = 10.0
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

        OPEN ──a call ─▶ passes──▶ CLOSED ──PERIOD_S──▶ OPEN
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
            if known is not None and now_s - known.reported_at_s < PERIOD_S:
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
