"""Which agents' silence is worth an alert: each once as it begins, and once as it ends."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chimbuko.runtime.protocol.telemetry import SilentAgents


class AgentAlert(msgspec.Struct, frozen=True, tag_field="kind", tag="agent"):
    """What is sent of an agent of which nothing is heard, or that is heard again."""

    run: str
    """Its id."""
    agent: str
    """``agent-`` and the name of its node."""
    is_silent: bool
    """False where it is heard again."""
    silent_s: float
    """Time since it was heard last; 0 where it is heard."""
    dashboard: str
    """Address of the page about the analysis, without the token; empty where there is no dashboard."""


class SilenceGate:
    """Notices changes among the agents that are silent."""

    def __init__(self) -> None:
        self._silent: SilentAgents = {}

    def changes(self, silent: SilentAgents, now_us: int) -> Iterator[tuple[str, float]]:
        """Agents that fell silent, and for how many seconds they are; with 0 those that are heard again."""
        before, self._silent = self._silent, silent
        for agent in sorted(silent.keys() - before.keys()):
            yield agent, max(now_us - silent[agent], 1) / 1e6
        for agent in sorted(before.keys() - silent.keys()):
            yield agent, 0.0
