"""Metrics of a run in Prometheus' format. Labels are bounded: programs, and groups of ranks."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from hmac import compare_digest
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chimbuko.pserver.metrics import FIELDS, Figures, ProgramFigures
from chimbuko.runtime.protocol.telemetry import SILENT_AFTER_S, AgentFigures

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MOST_SILENT = 64
"""Maximum number of silent agents that are named, so that the number of series stays bounded."""
MOST_CONNECTIONS = 32
"""Maximum number of open connections. Each has a thread; usually a few clients ask every few seconds."""


class PrometheusCollector(Collector):
    """Answers Prometheus from the newest ``Figures``."""

    def __init__(self) -> None:
        self.figures = Figures()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        figures = self.figures
        yield from _of_groups(figures.programs)
        yield from _of_programs(figures.programs)
        yield from _of_agents(figures.agents.values())
        yield from _of_silence(figures)
        yield CounterMetricFamily(
            "chimbuko_lost_deltas",
            "Messages to the parameter server that were lost when their agents died",
            value=figures.lost_deltas,
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
    streams = GaugeMetricFamily("chimbuko_streams", "Number of streams by state", labels=("program", "state"))
    slow = GaugeMetricFamily(
        "chimbuko_slow_ranks", "Number of ranks that are slow all the time", labels=("program",)
    )
    functions = GaugeMetricFamily(
        "chimbuko_functions", "Number of functions that were called", labels=("program",)
    )
    for program in programs:
        for state, number in sorted(program.states.items()):
            streams.add_metric((program.name, state), number)
        slow.add_metric((program.name,), program.slow_ranks)
        functions.add_metric((program.name,), program.functions)
    yield from (streams, slow, functions)


def _of_agents(agents: Collection[AgentFigures]) -> Iterator[Metric]:
    yield GaugeMetricFamily("chimbuko_agents", "Agents that report their own resource use", value=len(agents))
    yield GaugeMetricFamily(
        "chimbuko_agent_memory_bytes",
        "Memory of all agents together",
        value=sum(one.pss_bytes for one in agents),
    )
    yield GaugeMetricFamily(
        "chimbuko_agent_memory_bytes_max",
        "Memory of the agent that uses most",
        value=max((one.pss_bytes for one in agents), default=0),
    )
    yield CounterMetricFamily(
        "chimbuko_agent_cpu_seconds",
        "CPU time of all agents together",
        value=sum(one.cpu_s for one in agents),
    )
    yield GaugeMetricFamily(
        "chimbuko_spool_bytes",
        "Size of the spools of all agents: findings that are not in the store yet",
        value=sum(one.spool_bytes for one in agents),
    )
    yield GaugeMetricFamily(
        "chimbuko_lag_seconds",
        "Largest analysis lag over all agents, relative to each one's smallest lag",
        value=max((one.lag_s for one in agents), default=0.0),
    )


def _of_silence(figures: Figures) -> Iterator[Metric]:
    """Return metrics of agents that are not heard. Their ages grow while nothing comes, so they are computed
    at the time of the request.
    """
    now_us = time.time_ns() // 1000
    expected = {name for name, one in figures.agents.items() if one.streams} | figures.silent
    silence_s = {name: (now_us - figures.heard_us[name]) / 1e6 for name in expected}
    silent = [name for name, age_s in silence_s.items() if name in figures.silent or age_s > SILENT_AFTER_S]
    yield GaugeMetricFamily(
        "chimbuko_agent_silence_seconds_max",
        "Time since the last message of the longest silent agent that has streams to read",
        value=max(silence_s.values(), default=0.0),
    )
    yield GaugeMetricFamily(
        "chimbuko_silent_agents",
        "Number of agents that sent nothing for 25 s (for 8 s in a run on many nodes)",
        value=len(silent),
    )
    yield GaugeMetricFamily(
        "chimbuko_unread_streams",
        "Number of streams of silent agents, which may be read by nobody",
        value=sum(figures.agents[name].streams for name in silent if name in figures.agents),
    )
    ages = GaugeMetricFamily(
        "chimbuko_silent_agent_seconds",
        f"Time since the last message of each silent agent, for the {MOST_SILENT} longest silent",
        labels=("agent",),
    )
    for name in sorted(silent, key=lambda name: -silence_s[name])[:MOST_SILENT]:
        ages.add_metric((name,), silence_s[name])
    yield ages


def serve(collector: PrometheusCollector, address: str, port: int, token: str) -> str:
    """Serve metrics in a thread of its own; return the URL.

    Parameters
    ----------
    token
        Token that a request has to bring (``Authorization: Bearer``).

    Raises
    ------
    OSError
        The port is in use.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    application = _for_bearers(make_wsgi_app(registry), token)
    server = make_server(address, port, application, _Server, handler_class=_SilentHandler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return f"http://{address}:{server.server_port}/metrics"


def _for_bearers(application: WSGIApplication, token: str) -> WSGIApplication:
    """Return the application, restricted to requests that bring the token."""
    expected = f"Bearer {token}".encode()

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        brought = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1")
        if compare_digest(brought, expected):
            return application(environ, start_response)
        start_response("401 Unauthorized", [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain")])
        return [b"the token is missing or wrong\n"]

    return guarded


class _Server(ThreadingMixIn, WSGIServer):
    """HTTP server with a thread for each connection, so that a slow client does not keep others waiting.

    A client without a token can hold as many connections as it likes, but not our threads: beyond the maximum
    the oldest connection is closed.
    """

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._open: dict[Any, None] = {}
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection; beyond the maximum close the oldest one."""
        self._open[request] = None
        for oldest in list(self._open)[:-MOST_CONNECTIONS]:
            with suppress(OSError):
                # Its thread, which waits for it, ends.
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect before they have their answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _SilentHandler(WSGIRequestHandler):
    timeout = 10.0
    """Time in seconds after which a connection that sends nothing is closed."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Log no requests: they come every few seconds."""
