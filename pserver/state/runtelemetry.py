"""Telemetry of a run beside its statistics: flagged calls by rank and function, messages, counters, slow
ranks, agents. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from chimbuko.core.arrays import Int64Array, Rows, distinct, grown
from chimbuko.pserver.state.programtotals import ProgramCallPaths, ProgramCounters, SavedCounter
from chimbuko.pserver.state.stragglers import SavedProgram, SlowRanks
from chimbuko.pserver.state.totals import RowIndex, Totals
from chimbuko.runtime.protocol.telemetry import (
    FLAGGED,
    OTHERS,
    PACE,
    TIMER,
    TRAFFIC,
    AgentFigures,
    ProgramPaths,
    SilentAgents,
    SlowRank,
    TelemetryChanges,
    TelemetryDelta,
)

MOST_PAIRS = 1 << 20
"""Maximum number of pairs of ranks with messages: 100 partners for each of 10,000 ranks, in 60 MB."""
PAIR_GROWTH = 1.1
"""Growth factor after which a pair of ranks is reported again: 10,000 ranks with eight partners each would
otherwise be 2 MB in each frame.
"""
MOST_TIMERS = 1 << 20
"""Maximum number of pairs of rank and function: 100 functions of each of 10,000 ranks, in 60 MB."""


class SavedTelemetry(msgspec.Struct, frozen=True, array_like=True):
    """Saved state of ``Telemetry``."""

    flagged: bytes = b""
    traffic: bytes = b""
    counters: list[SavedCounter] = []
    agents: dict[str, AgentFigures] = {}
    slow: list[SavedProgram] = []
    paths: list[ProgramPaths] = []
    timers: bytes = b""


class Telemetry:
    """Telemetry that agents report, and its changes. Memory grows with ranks and functions, not with time.

    Parameters
    ----------
    function_name
        Callback that returns the name of a global function number.
    node_of
        Callback that returns the node of a program and rank.
    """

    def __init__(self, function_name: Callable[[int], str], node_of: Callable[[int, int], str]) -> None:
        self._function_name = function_name
        self._node_of = node_of
        self._flagged = FlaggedCalls()
        self._traffic = Totals(TRAFFIC, "destination", ("messages", "size_bytes"), MOST_PAIRS)
        self._timers = Totals(TIMER, "function", ("calls", "inclusive_us", "exclusive_us"), MOST_TIMERS)
        self._counters = ProgramCounters()
        self._agents: dict[str, AgentFigures] = {}
        self._changed_agents: set[str] = set()
        self._silent: SilentAgents = {}
        self._are_others_silent = False
        self._slow = SlowRanks()
        self.paths = ProgramCallPaths(function_name)
        """Calls by call path, which are reported beside the other telemetry."""

    def take(self, agent: str, delta: TelemetryDelta, numbers: Int64Array) -> None:
        """Take in one delta of an agent, each once.

        Parameters
        ----------
        numbers
            Global number of each of the agent's own function numbers, int64[n].
        """
        if delta.flagged:
            self._flagged.take(renumbered(np.frombuffer(delta.flagged, FLAGGED), numbers))
        if delta.traffic:
            self._traffic.take(delta.traffic)
        if delta.paces:
            self._slow.take(renumbered(np.frombuffer(delta.paces, PACE), numbers))
        for paths in delta.paths:
            self.paths.take(paths, numbers)
        if delta.timers:
            self._timers.take(renumbered(np.frombuffer(delta.timers, TIMER), numbers).tobytes())
        if delta.counters:
            self._counters.take(delta.counters)
        if delta.figures is not None:
            self._agents[agent] = delta.figures
            self._changed_agents.add(agent)

    def note_silent(self, agents: SilentAgents) -> None:
        """Note the agents that are not heard; all others are."""
        self._are_others_silent = self._are_others_silent or agents != self._silent
        self._silent = agents

    def changes(self, is_last: bool = False) -> TelemetryChanges:
        """Return the changes since the last call; at the end everything."""
        are_compared = self._slow.compare(is_last)
        if is_last:
            return self.everything()
        changes = TelemetryChanges(
            flagged=self._flagged.changes().tobytes(),
            traffic=self._traffic.grown_by(PAIR_GROWTH).tobytes(),
            counters=self._counters.changes(),
            agents={name: self._agents[name] for name in sorted(self._changed_agents)},
            slow_ranks=self.slow_ranks() if are_compared else None,
            silent=self._silent if self._are_others_silent else None,
        )
        self._changed_agents.clear()
        self._are_others_silent = False
        return changes

    def everything(self) -> TelemetryChanges:
        """Return everything."""
        return TelemetryChanges(
            flagged=self._flagged.rows.tobytes(),
            traffic=self._traffic.everything().tobytes(),
            counters=self._counters.everything(),
            agents=dict(self._agents),
            slow_ranks=self.slow_ranks(),
            silent=self._silent,
        )

    def slow_ranks(self) -> list[SlowRank]:
        """Return ranks that are slow all the time, as far as they were compared, the most time lost first."""
        return self._slow.slow(self._function_name, self._node_of)

    def timers(self) -> Rows:
        """Return ``TIMER`` totals of all ranks."""
        return self._timers.everything()

    def dump(self) -> SavedTelemetry:
        """Return everything, for ``restore``."""
        return SavedTelemetry(
            self._flagged.rows.tobytes(),
            self._traffic.everything().tobytes(),
            self._counters.dump(),
            dict(self._agents),
            self._slow.dump(),
            self.paths.dump(),
            self.timers().tobytes(),
        )

    def restore(self, saved: SavedTelemetry) -> None:
        """Restore what was dumped, into a new object."""
        self._flagged.take(np.frombuffer(saved.flagged, FLAGGED))
        self._flagged.changes()
        self._traffic.restore(np.frombuffer(saved.traffic, TRAFFIC))
        self._counters.restore(saved.counters)
        self._agents = dict(saved.agents)
        self._slow.restore(saved.slow)
        self.paths.restore(saved.paths)
        self._timers.restore(np.frombuffer(saved.timers, TIMER))


class FlaggedCalls:
    """Flagged calls, their severity and their highest score, by rank and function."""

    def __init__(self) -> None:
        self._index = RowIndex()
        self._rows = np.zeros(0, FLAGGED)
        self._changed: list[Int64Array] = []

    @property
    def rows(self) -> Rows:
        """Return ``FLAGGED`` totals."""
        return self._rows[: len(self._index)]

    def take(self, flagged: Rows) -> None:
        """Add ``FLAGGED`` rows."""
        at = self._index.rows(flagged["program"], flagged["rank"], flagged["function"])
        self._rows = grown(self._rows, len(self._index))
        self._changed.append(at)
        for name in ("program", "rank", "function"):
            self._rows[name][at] = flagged[name]
        for name in ("anomalies", "severity_us"):
            np.add.at(self._rows[name], at, flagged[name])
        np.maximum.at(self._rows["highest_score"], at, flagged["highest_score"])

    def changes(self) -> Rows:
        """Return the totals that have grown since the last call."""
        if not self._changed:
            return self._rows[:0]
        changed = distinct(np.concatenate(self._changed))
        self._changed.clear()
        rows: Rows = self._rows[changed]
        return rows


def renumbered(rows: Rows, numbers: Int64Array) -> Rows:
    """Return a copy with global function numbers, where numbers are given."""
    renumbered = rows.copy()
    is_known = rows["function"] != OTHERS
    renumbered["function"][is_known] = numbers[rows["function"][is_known]]
    return renumbered
