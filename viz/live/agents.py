"""Agents of a run as of their last reports, and ranks that are slow all the time."""

from __future__ import annotations

import time

import msgspec

from chimbuko.runtime.protocol.telemetry import (
    SILENT_AFTER_S,
    AgentFigures,
    SilentAgents,
    SlowRank,
    TelemetryChanges,
    reported_agents,
)
from chimbuko.runtime.runs.directory import RunDirectory


class AgentState(msgspec.Struct, frozen=True):
    """Resources of an agent, and the age of its last report."""

    name: str
    node: str
    streams: int
    """Number of streams that the agent is reading."""
    pss_bytes: int
    cpu_s: float
    spool_bytes: int
    lag_s: float
    """Lag in seconds of the agent's stream that is furthest behind its rank, beyond the least that it ever
    had.
    """
    age_s: float | None
    """Age of its last report in seconds; None where the run has ended."""
    is_silent: bool
    """Whether the agent has not reported for long, and should have."""


class _Report(msgspec.Struct, frozen=True):
    """Parts of the report that a run ends with, beside its agents."""

    slow_ranks: list[SlowRank] = []


_SHOWN = [field for field in AgentState.__struct_fields__ if field in AgentFigures.__struct_fields__]


class Agents:
    """Agents by name. Not locked: the owner has to lock."""

    def __init__(self) -> None:
        self._slow_ranks: dict[int, list[SlowRank]] = {}
        """Slow ranks, by the part of the parameter server that compares them."""
        self._figures: dict[str, AgentFigures] = {}
        self._heard_s: dict[str, float] = {}
        self._silent: SilentAgents = {}
        """Nodes of silent agents, as the services report, which hear more than is known here."""

    @property
    def slow_ranks(self) -> list[SlowRank]:
        """Return the ranks that are slower than the others all the time, the most time lost first."""
        everywhere = [rank for ranks in self._slow_ranks.values() for rank in ranks]
        return sorted(everywhere, key=lambda rank: -rank.lost_us)

    def take(self, changes: TelemetryChanges, now_s: float, part: int = 0) -> None:
        """Add the changes in a frame of one part of the parameter server, received at ``now_s`` of a
        monotonic clock.
        """
        self._figures |= changes.agents
        self._heard_s |= dict.fromkeys(changes.agents, now_s)
        if changes.slow_ranks is not None:
            self._slow_ranks[part] = changes.slow_ranks
        if changes.silent is not None:
            self._silent = changes.silent

    def read_report(self, run: RunDirectory) -> None:
        """Read the agents' state at the end of a run; nothing where it left no report."""
        try:
            report = run.read_report()
            slow_ranks = msgspec.json.decode(report, type=_Report).slow_ranks
            self._figures = reported_agents(report)
        except (OSError, msgspec.MsgspecError):
            return
        self._slow_ranks = {0: slow_ranks}

    def figures(self) -> dict[str, AgentFigures]:
        """Return the last report of each agent, by name."""
        return dict(self._figures)

    def states(self, now_s: float | None) -> list[AgentState]:
        """Return the states of all agents by name; without a time the run has ended."""
        return [
            AgentState(
                name=name,
                **{field: getattr(figures, field) for field in _SHOWN},
                age_s=self._age_s(name, now_s),
                is_silent=now_s is not None and self._is_silent(name, now_s),
            )
            for name, figures in sorted(self._figures.items())
        ]

    def silent(self, now_s: float) -> list[str]:
        """Return the nodes of agents that have streams to read, and have not reported for long."""
        return [self._figures[name].node for name in sorted(self._figures) if self._is_silent(name, now_s)]

    def _is_silent(self, name: str, now_s: float) -> bool:
        age_s = self._age_s(name, now_s)
        is_old = age_s is not None and age_s > SILENT_AFTER_S
        # An agent that has read all its streams need not report any more.
        return name in self._silent or (is_old and self._figures[name].streams > 0)

    def _age_s(self, name: str, now_s: float | None) -> float | None:
        heard_s = self._heard_s.get(name)
        if heard_s is None or now_s is None:
            return None
        if name in self._silent:
            return (time.time_ns() // 1000 - self._silent[name]) / 1e6
        return now_s - heard_s
