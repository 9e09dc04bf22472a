"""Alerts about agents: once as one falls silent, and once as it is heard again."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from chimbuko.core.units import format_duration_us
from chimbuko.provenance.alerts.alertkind import AlertKind
from chimbuko.provenance.alerts.events import AgentsSeen, Alert, Event, Instruction, LookAtAgents, Send
from chimbuko.provenance.write.events import Tick

LOOK_S = 1.0
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
        self._looked_s = -inf

    def handle(self, event: Event) -> Iterator[Instruction]:
        """Yield an alert of each agent that fell silent, or is heard again."""
        match event:
            case Tick(now_s) if now_s - self._looked_s >= LOOK_S:
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
