"""Agents of a run as of their last reports, and ranks that are slow all the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

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
from chimbuko.viz.live.feedevents import Moment


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
    """Age of its last report in seconds; None if the run has ended."""
    is_silent: bool
    """Whether the agent has not reported for long, and should have."""


class _Report(msgspec.Struct, frozen=True):
    """Parts of the report that a run ends with, beside its agents."""

    slow_ranks: list[SlowRank] = []


_SHOWN = [field for field in AgentState.__struct_fields__ if field in AgentFigures.__struct_fields__]


@dataclass(frozen=True)
class Agents:
    """Agents by name, as they last reported. They never change: news make others."""

    figures: Mapping[str, AgentFigures] = field(default_factory=dict)
    """Last report of each agent, by name."""
    _slow_ranks: Mapping[int, list[SlowRank]] = field(default_factory=dict)
    """Slow ranks, by the part of the parameter server that compares them."""
    _heard_s: Mapping[str, float] = field(default_factory=dict)
    _silent: SilentAgents = field(default_factory=dict)
    """Nodes of silent agents, as the services report, which hear more than is known here."""

    @classmethod
    def at_end(cls, run: RunDirectory) -> Self:
        """Return the agents' state at the end of a run; none if it left no report."""
        try:
            report = run.read_report()
            slow_ranks = msgspec.json.decode(report, type=_Report).slow_ranks
            return cls(reported_agents(report), {0: slow_ranks})
        except (OSError, msgspec.MsgspecError):
            return cls()

    @property
    def slow_ranks(self) -> list[SlowRank]:
        """Return the ranks that are slower than the others all the time, the most time lost first."""
        everywhere = [rank for ranks in self._slow_ranks.values() for rank in ranks]
        return sorted(everywhere, key=lambda rank: -rank.lost_us)

    def with_changes(self, changes: TelemetryChanges, at: Moment, part: int = 0) -> Self:
        """Return the agents after the changes in a frame of one part of the parameter server."""
        if not changes:
            return self
        slow_ranks = {} if changes.slow_ranks is None else {part: changes.slow_ranks}
        return replace(
            self,
            figures={**self.figures, **changes.agents},
            _slow_ranks={**self._slow_ranks, **slow_ranks},
            _heard_s={**self._heard_s, **dict.fromkeys(changes.agents, at.clock_s)},
            _silent=self._silent if changes.silent is None else changes.silent,
        )

    def states(self, at: Moment | None) -> list[AgentState]:
        """Return the states of all agents by name; without a moment the run has ended."""
        return [
            AgentState(
                name=name,
                **{field: getattr(figures, field) for field in _SHOWN},
                age_s=None if at is None else self._age_s(name, at),
                is_silent=at is not None and self._is_silent(name, at),
            )
            for name, figures in sorted(self.figures.items())
        ]

    def silent(self, at: Moment) -> list[str]:
        """Return the nodes of agents that have streams to read, and have not reported for long."""
        return [self.figures[name].node for name in sorted(self.figures) if self._is_silent(name, at)]

    def _is_silent(self, name: str, at: Moment) -> bool:
        age_s = self._age_s(name, at)
        is_old = age_s is not None and age_s > SILENT_AFTER_S
        # An agent that has read all its streams need not report any more.
        return name in self._silent or (is_old and self.figures[name].streams > 0)

    def _age_s(self, name: str, at: Moment) -> float | None:
        heard_s = self._heard_s.get(name)
        if heard_s is None:
            return None
        if name in self._silent:
            return (at.epoch_us - self._silent[name]) / 1e6
        return at.clock_s - heard_s
