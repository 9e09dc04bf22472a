"""The agents of a run as they last spoke, and the ranks that are slow all the time."""

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
    """What an agent takes, and when it said so."""

    name: str
    node: str
    streams: int
    """That are being read."""
    pss_bytes: int
    cpu_s: float
    spool_bytes: int
    lag_s: float
    """By how much its stream that is furthest behind its rank is further behind than it ever was least."""
    age_s: float | None
    """Since it was heard; None where the run has ended."""
    is_silent: bool
    """Whether it was not heard for long, and should have been."""


class _Report(msgspec.Struct, frozen=True):
    """What is needed here of the report that a run ends with, beside its agents."""

    slow_ranks: list[SlowRank] = []


_SHOWN = [field for field in AgentState.__struct_fields__ if field in AgentFigures.__struct_fields__]


class Agents:
    """Told apart by name. Not locked: its owner sees to that."""

    def __init__(self) -> None:
        self._slow_ranks: dict[int, list[SlowRank]] = {}
        """By the part of the parameter server that compares them."""
        self._figures: dict[str, AgentFigures] = {}
        self._heard_s: dict[str, float] = {}
        self._silent: SilentAgents = {}
        """As the services say, which hear more than what is here."""

    @property
    def slow_ranks(self) -> list[SlowRank]:
        """Ranks that are slower than the others all the time, the most time lost first."""
        everywhere = [rank for ranks in self._slow_ranks.values() for rank in ranks]
        return sorted(everywhere, key=lambda rank: -rank.lost_us)

    def take(self, changes: TelemetryChanges, now_s: float, part: int = 0) -> None:
        """Take in what a frame of one part of the parameter server says has changed, heard at ``now_s`` of a
        clock that never goes back.
        """
        self._figures |= changes.agents
        self._heard_s |= dict.fromkeys(changes.agents, now_s)
        if changes.slow_ranks is not None:
            self._slow_ranks[part] = changes.slow_ranks
        if changes.silent is not None:
            self._silent = changes.silent

    def read_report(self, run: RunDirectory) -> None:
        """What was known at the end of a run; nothing where it left no report."""
        try:
            report = run.read_report()
            slow_ranks = msgspec.json.decode(report, type=_Report).slow_ranks
            self._figures = reported_agents(report)
        except (OSError, msgspec.MsgspecError):
            return
        self._slow_ranks = {0: slow_ranks}

    def figures(self) -> dict[str, AgentFigures]:
        """As they last spoke, by name."""
        return dict(self._figures)

    def states(self, now_s: float | None) -> list[AgentState]:
        """All agents by name; without a time the run has ended."""
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
        """Nodes of agents that have streams to read, and have not spoken for long."""
        return [self._figures[name].node for name in sorted(self._figures) if self._is_silent(name, now_s)]

    def _is_silent(self, name: str, now_s: float) -> bool:
        age_s = self._age_s(name, now_s)
        is_old = age_s is not None and age_s > SILENT_AFTER_S
        # What has read all its streams need not speak of itself.
        return name in self._silent or (is_old and self._figures[name].streams > 0)

    def _age_s(self, name: str, now_s: float | None) -> float | None:
        heard_s = self._heard_s.get(name)
        if heard_s is None or now_s is None:
            return None
        if name in self._silent:
            return (time.time_ns() // 1000 - self._silent[name]) / 1e6
        return now_s - heard_s
