"""Alerts about agents: once as one falls silent, and once as it is heard again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from chimbuko.core.units import format_duration_us
from chimbuko.provenance.alerts.alert import Alert, AlertedRun, AlertKind
from chimbuko.provenance.alerts.events import Event, Tick
from chimbuko.runtime.protocol.membership import silent_agents
from chimbuko.runtime.protocol.telemetry import SilentAgents

LOOK_S = 1.0
"""Time between two looks whether agents are silent."""


class AgentAlert(Alert, frozen=True, kw_only=True, tag="agent"):
    """Alert about an agent of which nothing is heard, or that is heard again."""

    agent: str
    """``agent-`` and the name of its node."""
    is_silent: bool
    """Whether nothing is heard of it; false where it is heard again."""
    silent_s: float
    """Time since it was heard last; 0 where it is heard."""


class AgentAlerts(AlertKind):
    """Alerts about changes among the agents that are silent, as services of many nodes say."""

    def __init__(self, run: AlertedRun) -> None:
        super().__init__(run)
        self._silent: SilentAgents = {}
        self._looked_s = -LOOK_S

    def alerts(self, event: Event) -> Iterator[Alert]:
        """Yield an alert of each agent that fell silent, or is heard again."""
        now_s = time.monotonic()
        if not isinstance(event, Tick) or now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        silent = silent_agents(self.run.broker)
        if silent.keys() == self._silent.keys():
            return
        page = self.run.page("health")
        before, self._silent = self._silent, silent
        now_us = time.time_ns() // 1000
        for agent in sorted(silent.keys() - before.keys()):
            yield self._alert(agent, max(now_us - silent[agent], 1) / 1e6, page)
        for agent in sorted(before.keys() - silent.keys()):
            yield self._alert(agent, 0.0, page)

    def _alert(self, agent: str, silent_s: float, page: str) -> Alert:
        is_silent = silent_s > 0.0
        silent = f"nothing has been heard of {agent} for {format_duration_us(1e6 * silent_s)}"
        return AgentAlert(
            run=self.run.id,
            sentence=silent if is_silent else f"{agent} is heard again",
            dashboard=page,
            agent=agent,
            is_silent=is_silent,
            silent_s=silent_s,
        )
