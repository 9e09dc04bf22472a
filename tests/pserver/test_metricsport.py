"""What Prometheus receives: the sums of the run, in few series, and by a real server."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.metrics import MOST_GROUPS, MetricsPort, RunFigures
from chimbuko.pserver.prometheus import MOST_CONNECTIONS, MOST_SILENT, PrometheusCollector
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import (
    BROKER_VARIABLE,
    TOKEN_VARIABLE,
    metrics_of_part,
    metrics_place,
)
from chimbuko.runtime.protocol.messages import PAYLOAD, Delta, Frame, FunctionStatistics, RankStatistics
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import (
    SILENT_AFTER_S,
    AgentFigures,
    SlowRank,
    TelemetryChanges,
    TelemetryDelta,
)

NAMES = {0: "heat", 1: "viewer"}
FIGURES = AgentFigures("node", 4, 80_000_000, 1.5, 4096, 0.25)
TOKEN = "secret"
Samples = dict[tuple[str, ...], float]


def health(program: int, rank: int, steps: int, state: str = "reading") -> StreamHealth:
    return StreamHealth(program, rank, "node", state, steps, 100, 6400, 50, 3, 1, {"a": 2, "b": 5})


def rank_statistics(program: int, rank: int, severity_us: float) -> RankStatistics:
    return RankStatistics(program, rank, 1, 3, 3.0, 0.0, 3, 3, 0.0, 0.0, severity_us, 0)


def frame(healths: list[StreamHealth], **others: object) -> Frame:
    fields = {"ranks": [], "functions": []} | others
    return Frame(tick=1, steps=[], health=healths, is_last=False, **fields)


def samples_of(families: Iterable[Metric]) -> Samples:
    """Name and labels to value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def collected(figures: RunFigures) -> Samples:
    collector = PrometheusCollector()
    collector.figures = figures.figures(NAMES, lost_deltas=7)
    return samples_of(collector.collect())


def test_parts_of_the_server_have_ports_that_follow_each_other() -> None:
    assert [metrics_of_part("ib0:9464", part) for part in range(3)] == ["ib0:9464", "ib0:9465", "ib0:9466"]
    assert metrics_of_part("0", 2) == "0"
    with pytest.raises(ConfigError, match="--metrics 65535: 2 parts of the server need as many ports"):
        metrics_of_part("65535", 1)


def test_totals_replace_those_before() -> None:
    run = RunFigures()
    for steps in (1, 5):
        ranks = [rank_statistics(0, 1, 2e6 * steps)]
        run.take(frame([health(0, 0, steps), health(0, 1, steps)], ranks=ranks))
    run.take(frame([health(1, 0, 9, "ended")], functions=[FunctionStatistics(1, "f", *[0] * 9)]))
    samples = collected(run)
    assert samples["chimbuko_steps_total", "heat", "0"] == 5
    assert samples["chimbuko_steps_total", "viewer", "0"] == 9
    assert samples["chimbuko_lost_seconds_total", "heat", "1"] == 10.0
    assert samples["chimbuko_losses_total", "heat", "1"] == 7
    assert samples["chimbuko_streams", "heat", "reading"] == 2
    assert samples["chimbuko_streams", "viewer", "ended"] == 1
    assert samples["chimbuko_functions", "viewer"] == 1
    assert samples["chimbuko_lost_deltas_total",] == 7


@pytest.mark.parametrize("ranks", [1, 16, 17, 10_000])
def test_groups_are_few_and_miss_no_rank(ranks: int) -> None:
    run = RunFigures()
    for rank in range(ranks):
        run.take(frame([health(0, rank, 3)]))
    steps = [value for name, value in collected(run).items() if name[0] == "chimbuko_steps_total"]
    assert len(steps) <= MOST_GROUPS
    assert sum(steps) == 3 * ranks


def test_a_rank_that_is_slow_in_several_functions_is_one() -> None:
    run = RunFigures()
    slow = [
        SlowRank(0, rank, "node", function, 1.1, 9.0, 1e6, 10, 8)
        for rank, function in ((1, "f"), (1, ""), (2, "f"))
    ]
    telemetry = TelemetryChanges(slow_ranks=slow, agents={"a": FIGURES})
    run.take(frame([health(0, 1, 1), health(1, 1, 1)], telemetry=telemetry))
    samples = collected(run)
    assert (samples["chimbuko_slow_ranks", "heat"], samples["chimbuko_slow_ranks", "viewer"]) == (2, 0)
    run.take(frame([], telemetry=TelemetryChanges(slow_ranks=[])))
    samples = collected(run)
    assert samples["chimbuko_slow_ranks", "heat"] == 0
    assert samples["chimbuko_agent_memory_bytes",] == FIGURES.pss_bytes
    assert samples["chimbuko_lag_seconds",] == FIGURES.lag_s


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + round(1e9 * seconds))


def test_silence_grows_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFigures()
    later(monkeypatch, 0.0)
    done = msgspec.structs.replace(FIGURES, streams=0)
    run.take(frame([], telemetry=TelemetryChanges(agents={"a": FIGURES, "b": done})))
    later(monkeypatch, SILENT_AFTER_S + 1.0)
    run.take(frame([], telemetry=TelemetryChanges(agents={"c": FIGURES})))
    samples = collected(run)
    assert samples["chimbuko_silent_agents",] == 1, "what has read all its streams need not speak"
    assert samples["chimbuko_agent_silence_seconds_max",] == pytest.approx(SILENT_AFTER_S + 1.0)
    assert samples["chimbuko_unread_streams",] == FIGURES.streams


def test_agents_that_services_do_not_hear_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFigures()
    later(monkeypatch, 0.0)
    now_us = time.time_ns() // 1000
    silent = {f"agent-{number}": now_us - 1_000_000 * number for number in range(100)}
    agents = {"agent-99": FIGURES, "agent-b": FIGURES}
    run.take(frame([], telemetry=TelemetryChanges(agents=agents, silent=silent)))
    samples = collected(run)
    assert samples["chimbuko_silent_agents",] == 100
    assert samples["chimbuko_unread_streams",] == FIGURES.streams, (
        "what another has said of itself is no news"
    )
    named = [name[1] for name in samples if name[0] == "chimbuko_silent_agent_seconds"]
    assert named == [f"agent-{number}" for number in range(99, 99 - MOST_SILENT, -1)]
    assert samples["chimbuko_silent_agent_seconds", "agent-99"] == pytest.approx(99.0)
    run.take(frame([], telemetry=TelemetryChanges(silent={})))
    samples = collected(run)
    assert (samples["chimbuko_silent_agents",], samples["chimbuko_unread_streams",]) == (0, 0)


def test_a_port_in_use_is_said_in_one_line() -> None:
    first = MetricsPort("0", TOKEN)
    port = int(first.url.split(":")[2].split("/")[0])
    with pytest.raises(ServiceError, match=f"port {port}.*--metrics"):
        MetricsPort(str(port), TOKEN)


def test_places() -> None:
    assert metrics_place("9464") == metrics_place("lo:9464") == ("127.0.0.1", 9464)
    assert metrics_place("10.1.2.3:9464") == ("10.1.2.3", 9464)
    for given in ("", "lo:", "lo:99999", "lo"):
        with pytest.raises(ConfigError, match="no port"):
            metrics_place(given)


def with_token(url: str) -> urllib.request.Request:
    return urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})


def asked(url: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        assert error.headers["WWW-Authenticate"] == "Bearer"
        return error.code


def test_only_who_brings_the_token_is_answered() -> None:
    url = MetricsPort("0", "s\u00e9cret").url
    assert [asked(url, token) for token in (None, "", "other", "s\u00e9cre")] == [401] * 4
    assert asked(MetricsPort("0", TOKEN).url, TOKEN) == 200


def test_connections_that_say_nothing_hold_few_threads_and_keep_nobody_out() -> None:
    url = MetricsPort("0", TOKEN).url
    place = urlsplit(url)
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((place.hostname, place.port)))
            for _ in range(MOST_CONNECTIONS + 1)
        ]
        silent[-1].sendall(b"GET /metrics HTTP/1.1\r\n")
        assert asked(url, TOKEN) == 200
        # Two have come after the first one could stay.
        assert [one.recv(1) for one in silent[:2]] == [b"", b""]
        silent[2].sendall(f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert silent[2].recv(12) == b"HTTP/1.0 200"


def test_a_real_server_answers(tmp_path: Path, broker: PrivateBroker) -> None:
    run = RunBroker.connect(broker.url, "run", timeout_s=30.0)
    run.client.hset(run.keys.programs, "heat", 0)
    environment = {BROKER_VARIABLE: broker.url, TOKEN_VARIABLE: TOKEN}
    server = Service(
        "pserver",
        "chimbuko.pserver",
        ["--run-id", "run", "--metrics", "0"],
        environment,
        tmp_path,
    )
    try:
        url = server.wait_ready()["metrics"]
        assert url.startswith("http://127.0.0.1:")
        delta = Delta(
            *("agent-0", 1, 1, 1, {}, [], b"", PROFILE.pack(PROFILE.empty(0)), []),
            health=[health(0, 3, 12)],
            telemetry=TelemetryDelta(figures=FIGURES),
        )
        run.client.xadd(run.keys.part(0).deltas, {PAYLOAD: run.seal.encode(delta)})
        assert run.client.xread({run.keys.frames: b"0"}, block=20_000)
        samples: Samples = {}
        # What is in a frame is reported a moment after it.
        while ("chimbuko_agents",) not in samples or not samples["chimbuko_agents",]:
            with urllib.request.urlopen(with_token(url)) as answer:
                samples = samples_of(text_string_to_metric_families(answer.read().decode()))
        assert samples["chimbuko_steps_total", "heat", "3"] == 12
        assert samples["process_resident_memory_bytes",] > 1e7
    finally:
        server.stop(10.0)
