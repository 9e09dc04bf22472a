"""Figures of a run for Prometheus, which asks for them. Labels are bounded: programs, and groups of ranks.

Each frame that the server makes also goes into ``RunFigures``; what a question is answered from is an
immutable copy, so that questions never hold up the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chimbuko.errors import ServiceError
from chimbuko.messages import Frame
from chimbuko.moments import Float64Array
from chimbuko.views import AgentFigures

MOST_GROUPS = 16
"""Of the ranks of a program."""
HOST = "127.0.0.1"

_FIELDS = {
    "steps": "Steps that were analysed",
    "events": "Rows of the trace that were read",
    "trace_bytes": "Size of the trace that was read",
    "calls": "Calls that ended",
    "anomalies": "Calls that were flagged",
    "lost_seconds": "Time lost by flagged calls, against what was expected of their functions",
    "gap_steps": "Steps never seen",
    "losses": "Rows and calls that could not be used",
}
_SEVERITY = list(_FIELDS).index("lost_seconds")


@dataclass(frozen=True)
class ProgramFigures:
    """One program."""

    name: str
    ranks: int
    group_ranks: int
    """Ranks in a group; a power of two."""
    groups: Float64Array
    """f8[groups, fields]"""
    states: Mapping[str, int]
    """Number of streams in each."""
    slow_ranks: int
    functions: int


@dataclass(frozen=True)
class Figures:
    """What a question is answered from."""

    programs: tuple[ProgramFigures, ...] = ()
    agents: tuple[AgentFigures, ...] = ()
    lost_deltas: int = 0


@dataclass
class _Program:
    by_rank: Float64Array = field(default_factory=lambda: np.zeros((16, len(_FIELDS))))
    states: dict[int, str] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    slow_ranks: int = 0

    def row(self, rank: int) -> Float64Array:
        if rank >= len(self.by_rank):
            ranks = 1 << rank.bit_length()
            self.by_rank = np.concatenate([self.by_rank, np.zeros((ranks - len(self.by_rank), len(_FIELDS)))])
        row: Float64Array = self.by_rank[rank]
        return row

    def figures(self, name: str) -> ProgramFigures:
        group_ranks = len(self.by_rank) // MOST_GROUPS
        used = max(self.states, default=0) // group_ranks + 1
        groups = self.by_rank.reshape(MOST_GROUPS, group_ranks, len(_FIELDS)).sum(axis=1)
        states = dict(Counter(self.states.values()))
        return ProgramFigures(
            name, len(self.states), group_ranks, groups[:used], states, self.slow_ranks, len(self.functions)
        )


class RunFigures:
    """Follows a run from its frames."""

    def __init__(self) -> None:
        self._programs: dict[int, _Program] = {}
        self._agents: dict[str, AgentFigures] = {}

    def take(self, frame: Frame) -> None:
        """What has changed; all of it where the server goes on from a saved state."""
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
        self._agents |= frame.views.agents
        if frame.views.slow_ranks is not None:
            slow = Counter(
                number for number, _ in {(one.program, one.rank) for one in frame.views.slow_ranks}
            )
            for number, program in self._programs.items():
                program.slow_ranks = slow[number]

    def figures(self, program_names: Mapping[int, str], lost_deltas: int) -> Figures:
        """As they are now."""
        programs = (
            known.figures(program_names.get(number, str(number)))
            for number, known in sorted(self._programs.items())
        )
        return Figures(tuple(programs), tuple(self._agents.values()), lost_deltas)

    def _program(self, number: int) -> _Program:
        return self._programs.setdefault(number, _Program())


class FiguresCollector(Collector):
    """Answers Prometheus from the newest ``Figures``."""

    def __init__(self) -> None:
        self.figures = Figures()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        figures = self.figures
        yield from _of_groups(figures.programs)
        yield from _of_programs(figures.programs)
        yield from _of_agents(figures.agents)
        yield CounterMetricFamily(
            "chimbuko_lost_deltas", "Messages of agents that died with them", value=figures.lost_deltas
        )


def _of_groups(programs: Iterable[ProgramFigures]) -> Iterator[Metric]:
    metrics = [
        CounterMetricFamily(f"chimbuko_{name}", text, labels=("program", "ranks"))
        for name, text in _FIELDS.items()
    ]
    for program in programs:
        for group, values in enumerate(program.groups.tolist()):
            first = group * program.group_ranks
            label = str(first) if program.group_ranks == 1 else f"{first}-{first + program.group_ranks - 1}"
            for metric, value in zip(metrics, values, strict=True):
                metric.add_metric((program.name, label), value)
    yield from metrics


def _of_programs(programs: Iterable[ProgramFigures]) -> Iterator[Metric]:
    streams = GaugeMetricFamily("chimbuko_streams", "Streams by state", labels=("program", "state"))
    slow = GaugeMetricFamily("chimbuko_slow_ranks", "Ranks that are slow all the time", labels=("program",))
    functions = GaugeMetricFamily("chimbuko_functions", "Functions that were called", labels=("program",))
    for program in programs:
        for state, number in sorted(program.states.items()):
            streams.add_metric((program.name, state), number)
        slow.add_metric((program.name,), program.slow_ranks)
        functions.add_metric((program.name,), program.functions)
    yield from (streams, slow, functions)


def _of_agents(agents: tuple[AgentFigures, ...]) -> Iterator[Metric]:
    yield GaugeMetricFamily("chimbuko_agents", "Agents that have said what they take", value=len(agents))
    yield GaugeMetricFamily(
        "chimbuko_agent_memory_bytes", "Memory of all agents", value=sum(one.pss_bytes for one in agents)
    )
    yield GaugeMetricFamily(
        "chimbuko_agent_memory_bytes_max",
        "... of the largest",
        value=max((one.pss_bytes for one in agents), default=0),
    )
    yield CounterMetricFamily(
        "chimbuko_agent_cpu_seconds", "CPU time of all agents", value=sum(one.cpu_s for one in agents)
    )
    yield GaugeMetricFamily(
        "chimbuko_spool_bytes", "Spools of all agents", value=sum(one.spool_bytes for one in agents)
    )
    yield GaugeMetricFamily(
        "chimbuko_lag_seconds",
        "By how much the analysis furthest behind its trace is further behind than it ever was least",
        value=max((one.lag_s for one in agents), default=0.0),
    )


class MetricsPort:
    """Answers on the loopback interface, in a thread of its own.

    Parameters
    ----------
    port
        0 for any that is free.

    Raises
    ------
    ServiceError
        The port is in use.
    """

    def __init__(self, port: int) -> None:
        self._run = RunFigures()
        self._collector = FiguresCollector()
        registry = CollectorRegistry()
        registry.register(self._collector)
        ProcessCollector(registry=registry)
        try:
            server, _ = start_http_server(port, addr=HOST, registry=registry)
        except OSError as error:
            raise ServiceError(
                f"metrics on port {port}: {error.strerror}; give another with --metrics"
            ) from None
        self.url = f"http://{HOST}:{server.server_port}/metrics"

    def tell(self, frame: Frame, program_names: Mapping[int, str], lost_deltas: int) -> None:
        """From now on answer with this."""
        self._run.take(frame)
        self._collector.figures = self._run.figures(program_names, lost_deltas)
