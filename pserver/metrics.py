"""Metrics of a running run for Prometheus, bounded however large the run: by program, and by group of ranks.

Each frame that the server makes also goes into ``RunFigures``. A scrape is answered from an immutable copy,
so that it never holds up the server. ``MetricsPort`` is the port at which Prometheus asks.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.errors import ServiceError
from chimbuko.runtime.protocol.brokerplace import metrics_place
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.telemetry import AgentFigures, SilentAgents

MOST_GROUPS = 16
"""Maximum number of groups of ranks reported for a program."""
FIELDS = {
    "steps": "Number of steps that were analysed",
    "events": "Number of trace events that were read",
    "trace_bytes": "Size of the trace that was read, in bytes",
    "calls": "Number of calls that ended",
    "anomalies": "Number of calls that were flagged as anomalies",
    "lost_seconds": "Time lost by flagged calls, compared with the expected runtimes of their functions",
    "gap_steps": "Number of steps that were never seen",
    "losses": "Number of trace events and calls that could not be used",
}
_SEVERITY = list(FIELDS).index("lost_seconds")


class ProgramFigures(msgspec.Struct, frozen=True):
    """Metrics of one program."""

    name: str
    ranks: int
    group_ranks: int
    """Number of ranks in a group, a power of two."""
    groups: Float64Array
    """Sums over each group of ranks, float64[groups, fields], with the columns of ``FIELDS``."""
    states: Mapping[str, int]
    """Number of streams in each state."""
    slow_ranks: int
    functions: int


class Figures(msgspec.Struct, frozen=True):
    """Immutable metrics of the run, from which a scrape is answered."""

    programs: tuple[ProgramFigures, ...] = ()
    agents: Mapping[str, AgentFigures] = msgspec.field(default_factory=dict)
    heard_us: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Time at which each agent was last heard, in µs since the epoch."""
    silent: frozenset[str] = frozenset()
    """Agents that the services of a run on many nodes do not hear any more."""
    lost_deltas: int = 0


class _Program(msgspec.Struct):
    by_rank: Float64Array = msgspec.field(default_factory=lambda: np.zeros((16, len(FIELDS))))
    states: dict[int, str] = msgspec.field(default_factory=dict)
    functions: set[str] = msgspec.field(default_factory=set)
    slow_ranks: int = 0

    def row(self, rank: int) -> Float64Array:
        if rank >= len(self.by_rank):
            ranks = 1 << rank.bit_length()
            self.by_rank = np.concatenate([self.by_rank, np.zeros((ranks - len(self.by_rank), len(FIELDS)))])
        row: Float64Array = self.by_rank[rank]
        return row

    def figures(self, name: str) -> ProgramFigures:
        group_ranks = len(self.by_rank) // MOST_GROUPS
        used = max(self.states, default=0) // group_ranks + 1
        groups = self.by_rank.reshape(MOST_GROUPS, group_ranks, len(FIELDS)).sum(axis=1)
        states = dict(Counter(self.states.values()))
        return ProgramFigures(
            name, len(self.states), group_ranks, groups[:used], states, self.slow_ranks, len(self.functions)
        )


class RunFigures:
    """Metrics of a run, kept up to date from its frames."""

    def __init__(self) -> None:
        self._programs: dict[int, _Program] = {}
        self._agents: dict[str, AgentFigures] = {}
        self._heard_us: dict[str, int] = {}
        self._silent: SilentAgents = {}

    def take(self, frame: Frame) -> None:
        """Take in the changes of a frame; of a server that goes on from a saved state the frame has
        everything.
        """
        for health in frame.health:
            program = self._program(health.program)
            program.states[health.rank] = health.state
            lost_s = program.row(health.rank)[_SEVERITY]
            program.row(health.rank)[:] = (
                *(health.steps, health.rows, health.size_bytes, health.calls, health.anomalies, lost_s),
                *(health.gap_steps, sum(health.losses.values())),
            )
        for rank in frame.ranks:
            self._program(rank.program).row(rank.rank)[_SEVERITY] = rank.severity_us / 1e6
        for function in frame.functions:
            self._program(function.program).functions.add(function.name)
        self._agents |= frame.telemetry.agents
        self._heard_us |= dict.fromkeys(frame.telemetry.agents, time.time_ns() // 1000)
        if frame.telemetry.silent is not None:
            self._silent = frame.telemetry.silent
        if frame.telemetry.slow_ranks is not None:
            slow = Counter(
                number for number, _ in {(one.program, one.rank) for one in frame.telemetry.slow_ranks}
            )
            for number, program in self._programs.items():
                program.slow_ranks = slow[number]

    def figures(self, program_names: Mapping[int, str], lost_deltas: int) -> Figures:
        """Return the metrics as they are now."""
        programs = (
            known.figures(program_names.get(number, str(number)))
            for number, known in sorted(self._programs.items())
        )
        heard_us = self._heard_us | self._silent
        return Figures(tuple(programs), dict(self._agents), heard_us, frozenset(self._silent), lost_deltas)

    def _program(self, number: int) -> _Program:
        return self._programs.setdefault(number, _Program())


class MetricsPort:
    """HTTP endpoint, in a thread of its own, that answers requests which bring the token.

    Parameters
    ----------
    given
        ``[WHERE:]PORT``; port 0 for any that is free.
    token
        Token that a request has to bring. All users of the machine reach the loopback, so it is required
        there, too.

    Raises
    ------
    ConfigError
        ``given`` is no address and port.
    ServiceError
        The port is in use.
    """

    def __init__(self, given: str, token: str) -> None:
        # Loaded here: most runs have no such port, and would pay 10 ms and 2 MB for its web server.
        from chimbuko.pserver.prometheus import PrometheusCollector, serve

        address, port = metrics_place(given)
        self._run = RunFigures()
        self._collector = PrometheusCollector()
        try:
            self.url = serve(self._collector, address, port, token)
        except OSError as error:
            raise ServiceError(
                f"metrics on port {port}: {error.strerror}; give another with --metrics"
            ) from None

    def report(self, frame: Frame, program_names: Mapping[int, str], lost_deltas: int) -> None:
        """Answer with the state after this frame from now on."""
        self._run.take(frame)
        self._collector.figures = self._run.figures(program_names, lost_deltas)
