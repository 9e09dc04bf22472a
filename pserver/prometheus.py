"""Figures of a run as Prometheus asks for them. Labels are bounded: programs, and groups of ranks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chimbuko.protocol.telemetry import SILENT_AFTER_S, AgentFigures
from chimbuko.pserver.runfigures import FIELDS, Figures, ProgramFigures

HOST = "127.0.0.1"


class PrometheusCollector(Collector):
    """Answers Prometheus from the newest ``Figures``."""

    def __init__(self) -> None:
        self.figures = Figures()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        figures = self.figures
        yield from _of_groups(figures.programs)
        yield from _of_programs(figures.programs)
        yield from _of_agents(figures.agents)
        yield from _of_silence(figures)
        yield CounterMetricFamily(
            "chimbuko_lost_deltas", "Messages of agents that died with them", value=figures.lost_deltas
        )


def _of_groups(programs: Iterable[ProgramFigures]) -> Iterator[Metric]:
    metrics = [
        CounterMetricFamily(f"chimbuko_{name}", text, labels=("program", "ranks"))
        for name, text in FIELDS.items()
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


def _of_silence(figures: Figures) -> Iterator[Metric]:
    """Ages grow while nothing comes: they are those of the moment at which they are asked for."""
    now_s = time.monotonic()
    silent_s = [
        now_s - heard_s
        for agent, heard_s in zip(figures.agents, figures.heard_s, strict=True)
        if agent.streams
    ]
    yield GaugeMetricFamily(
        "chimbuko_agent_silence_seconds_max",
        "Time since the last word of the agent that is silent the longest, of those with streams to read",
        value=max(silent_s, default=0.0),
    )
    yield GaugeMetricFamily(
        "chimbuko_silent_agents",
        f"Agents with streams to read that have been silent for {SILENT_AFTER_S:.0f} s",
        value=sum(one > SILENT_AFTER_S for one in silent_s),
    )


def serve(collector: PrometheusCollector, port: int) -> str:
    """Answer on the loopback interface, in a thread of its own; the address.

    Raises
    ------
    OSError
        The port is in use.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    server, _ = start_http_server(port, addr=HOST, registry=registry)
    return f"http://{HOST}:{server.server_port}/metrics"
