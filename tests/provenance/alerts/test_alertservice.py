"""Alerts of a writer at work: one for each call, whatever comes again, and nothing waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import redis

from chimbuko.causes.recurrence import Recurrence, RecurrenceKind
from chimbuko.core.calls.record import Silence, StreamHealth
from chimbuko.monitor.sampling.nodebatch import packed
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.observe.namespaces.service.publishing import FindingsBoard
from chimbuko.provenance.alerts import alerting, alertservice
from chimbuko.provenance.alerts.alerting import (
    AgentAlert,
    CallAlert,
    DeadlockAlert,
    LossAlert,
    MetricAlert,
    RecurrenceAlert,
)
from chimbuko.provenance.alerts.alertservice import AlertService
from chimbuko.provenance.alerts.sinks import Sink
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.marks import Mark, MarkState, write_mark
from chimbuko.provenance.incidents.metricfindings import metric_findings
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService, run_writer
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write import liveincidents
from chimbuko.provenance.write.events import ExplainedCall, RecurrencesStored, SevereCallsStored, Tick
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch, RunStatistics
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import SlowRank
from tests.causes.losses import loss, shared
from tests.causes.stories import interruptions
from tests.patience import PATIENCE_S
from tests.provenance.writing import send
from tests.sample_records import RUN_ID, make_batch, make_batches, make_record, make_run

LEAST_US = 1000.0


def severe(n: int, row: int, revision: int = 1, severity_us: float = 5000.0) -> RecordBatch:
    record = make_record(row=row, revision=revision, severity_us=severity_us, function=f"f{row}")
    return make_batch(n, records=[record])


def write(broker: RunBroker, url: str, take: Callable[[bytes], None], *batches: RecordBatch) -> None:
    """The life of a writer, from the first batch to the last."""
    send(broker, *batches)
    with alerting_to(take, broker, url) as service:
        run_writer(service, lambda: True)


@contextmanager
def alerting_to(
    take: Callable[[bytes], None], broker: RunBroker, url: str, least_us: float = LEAST_US
) -> Iterator[WriterService]:
    """A writer whose alerts are taken, all of them at the end."""
    alerts = AlertService(RUN_ID, least_us, broker, [Sink("sink", take)], print)
    yield WriterService(broker, Destination(url, RUN_ID, severe_us=least_us), [alerts.take])
    alerts.stop()


def make_store(url: str) -> None:
    engine = open_for_writing(url)
    Writer(engine, RUN_ID).write_run(make_run())
    close(engine)


def test_each_severe_call_is_reported_once_whatever_comes_again(
    broker: RunBroker, any_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "CALLS_PERIOD_S", 0.0)
    make_store(any_store_url)
    got: list[bytes] = []
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")
    first = [
        severe(1, 1),
        severe(2, 2, severity_us=999.0),
        severe(3, 3),
        severe(4, 4),
        severe(5, 1, revision=2),
    ]
    write(broker, any_store_url, got.append, *first)
    found = [msgspec.json.decode(body, type=CallAlert).call for body in got]
    assert sorted(found) == ["0:1:3:1", "0:1:3:3", "0:1:3:4"]
    # What was not acknowledged comes again, with later revisions; one has become more severe.
    again = [*first, severe(6, 3, revision=2), severe(7, 2, revision=2), severe(8, 9)]
    write(broker, any_store_url, got.append, *again)
    found = [msgspec.json.decode(body, type=CallAlert).call for body in got[3:]]
    assert sorted(found) == ["0:1:3:2", "0:1:3:9"]
    alert = msgspec.json.decode(got[0], type=CallAlert)
    assert alert.dashboard == f"http://127.0.0.1:1234/r/{RUN_ID}/call/0/{alert.call.removeprefix('0:')}"
    assert (alert.run, alert.function, alert.rank, alert.severity_us) == (RUN_ID, "f1", 1, 5000.0)


def test_an_agent_that_falls_silent_is_reported_and_so_is_its_return(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "AGENTS_LOOK_S", 0.0)
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    got: list[bytes] = []
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")
    since_us = time.time_ns() // 1000 - 8_000_000
    with alerting_to(got.append, broker, url) as service:
        for silent in ({}, {"agent-a": since_us}, {"agent-a": since_us}, {}):
            broker.client.set(broker.keys.silent, msgspec.msgpack.encode(silent))
            service.serve_once(is_stopping=True)
        service.close()
    fell, came = (msgspec.json.decode(body, type=AgentAlert) for body in got)
    assert (fell.run, fell.agent, fell.is_silent) == (RUN_ID, "agent-a", True)
    assert 8.0 <= fell.silent_s < 60.0
    assert fell.dashboard == f"http://127.0.0.1:1234/r/{RUN_ID}/health"
    assert fell.sentence.startswith("nothing has been heard of agent-a for ")
    assert (came.agent, came.is_silent, came.silent_s) == ("agent-a", False, 0.0)
    assert came.sentence == "agent-a is heard again"


def test_ranks_that_spin_in_mpi_for_ever_are_reported_once(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "STANDSTILL_LOOK_S", 0.0)
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    got: list[bytes] = []
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")

    def say(service: WriterService, *functions: str) -> None:
        """Send what each rank is in, as the server does."""
        health = [
            StreamHealth(0, rank, "n1", "silent", 1, 1, 1, 1, 1, 0, {}, Silence(7, function, 5))
            for rank, function in enumerate(functions)
        ]
        statistics = RunStatistics({0: "heat"}, health=health)
        broker.client.xadd(broker.keys.statistics, {PAYLOAD: broker.seal.encode(statistics)})
        service.serve_once(is_stopping=True)

    with alerting_to(got.append, broker, url) as service:
        say(service, "compute()", "MPI_Recv()")
        assert not got, "a rank that computes is at work"
        say(service, "MPI_Recv()", "MPI_Recv()")
        say(service, "MPI_Recv()", "MPI_Recv()")
        service.close()
    (alert,) = (msgspec.json.decode(body, type=DeadlockAlert) for body in got)
    assert (alert.run, alert.program, alert.ranks) == (RUN_ID, 0, 2)
    assert alert.sentence == "all 2 ranks wait in MPI, and no call of theirs ends: 0-1 in MPI_Recv"
    assert alert.dashboard == f"http://127.0.0.1:1234/r/{RUN_ID}/health"


def test_what_is_wrong_in_published_quantities_is_stored_and_reported_once(
    broker: RunBroker, tmp_path: Path
) -> None:
    """Also by a writer that is started again, and by a watch that is; a damaged message ends neither."""
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    got: list[bytes] = []
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")
    drift = Finding(Problem.GLOBAL_DRIFT, "mass", (), 100, 140, -0.02, 5_000, 7_000)
    nan = Finding(Problem.NOT_A_NUMBER, "density/min", (14,), 180, 180, 0.0, 9_000, 9_000)
    boards = (FindingsBoard(broker), FindingsBoard(broker))
    for board in boards:
        board.add(drift)
    boards[0].keep_up()
    write(broker, url, got.append)
    boards[1].add(nan)
    boards[1].keep_up()
    write(broker, url, got.append)
    broker.client.set(broker.keys.metric_findings, b"?")
    write(broker, url, got.append)
    first, second = (msgspec.json.decode(body, type=MetricAlert) for body in got)
    assert first == MetricAlert(
        run=RUN_ID,
        sentence=drift.sentence,
        dashboard=f"http://127.0.0.1:1234/r/{RUN_ID}/incident/M1",
        finding="M1",
        type="global drift",
        quantity="mass",
        ranks=(),
        since_step=100,
        step=140,
        found_us=7_000,
    )
    assert (second.finding, second.type, second.ranks) == ("M2", "not a number", (14,))
    engine = open_for_reading(url)
    stored = metric_findings(Provenance(engine, RUN_ID).reader)
    assert [(one.id, one.finding, one.sentence) for one in stored] == [
        ("M1", drift, drift.sentence),
        ("M2", nan, nan.sentence),
    ]
    close(engine)


def test_what_recurs_is_reported_once_also_by_a_writer_that_is_started_again(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveincidents, "RECURRENCES_S", 0.0)
    monkeypatch.setattr(liveincidents, "MOST_SHARE_OF_RECURRENCES", 1e9)
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")
    got: list[bytes] = []
    write(broker, url, got.append, *make_batches(interruptions()))
    with Provenance(open_for_reading(url), RUN_ID) as provenance:
        (stored,) = Incidents(provenance.reader).recurrences()
    write(broker, url, got.append, severe(900, 900))
    findings = [body for body in got if msgspec.json.decode(body)["kind"] == "finding"]
    (alert,) = (msgspec.json.decode(body, type=RecurrenceAlert) for body in findings)
    assert (alert.run, alert.finding, alert.type, alert.is_growth) == (RUN_ID, "R1", "interruptions", False)
    assert (alert.cost_us, alert.sentence) == (stored.recurrence.cost_us, stored.sentence)
    assert alert.dashboard == f"http://127.0.0.1:1234/r/{RUN_ID}/incident/R1"


def test_ranks_that_are_slow_all_the_time_are_reported_while_the_run_goes_on(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveincidents, "RECURRENCES_S", 0.0)
    monkeypatch.setattr(liveincidents, "MOST_SHARE_OF_RECURRENCES", 1e9)
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    got: list[bytes] = []
    with alerting_to(got.append, broker, url) as service:
        for lost_us in (0.5 * LEAST_US, 5.0 * LEAST_US, 6.0 * LEAST_US):
            slow = SlowRank(0, 4, "n1", "", 1.34, 9.0, lost_us, 4, 16)
            statistics = RunStatistics({0: "heat"}, slow_ranks=[slow])
            broker.client.xadd(broker.keys.statistics, {PAYLOAD: broker.seal.encode(statistics)})
            service.serve_once(is_stopping=False)
        service.close()
    (alert,) = (msgspec.json.decode(body, type=RecurrenceAlert) for body in got)
    assert (alert.type, alert.cost_us) == ("slow ranks", 5.0 * LEAST_US)
    assert alert.sentence.startswith("Rank 4 on node n1 takes 1.34 times as long as other ranks all the time")


def test_what_a_node_took_from_ranks_is_reported_once(broker: RunBroker, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    got: list[bytes] = []
    # The writer is started again meanwhile.
    for ends_ms in ((1_000, 1_500), (1_800, 2_000)):
        with alerting_to(got.append, broker, url, 7e5) as service:
            for end_ms in ends_ms:
                batch = packed(shared(loss(1, 0, end_ms, end_ms / 2)))
                broker.client.xadd(broker.keys.node_batches, {PAYLOAD: broker.seal.encode(batch)})
                service.serve_once(is_stopping=True)
            service.close()
    (alert,) = (msgspec.json.decode(body, type=LossAlert) for body in got)
    assert (alert.run, alert.incident, alert.type) == (RUN_ID, "I1", "waited for core")
    assert (alert.ranks, alert.cost_us) == ([1], 7.5e5)
    assert alert.sentence.startswith("spinner (root, process 4711) took core 1 for 750 ms of 1.50 s")


def test_no_alert_is_lost_where_the_broker_is_away(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard's address is not known then."""

    def fail(key: str) -> bytes:
        raise redis.ConnectionError("made by a test")

    engine = open_for_writing(f"sqlite:///{tmp_path / 'provenance.sqlite'}")
    got: list[bytes] = []
    service = AlertService(RUN_ID, LEAST_US, broker, [Sink("sink", got.append)], print)
    call = SevereCall((0, 1, 3, 7), "solve", 0, "node7", 3, 1, False, 5000.0, 7.0)
    with monkeypatch.context() as patch, pytest.raises(redis.ConnectionError):
        patch.setattr(broker.client, "get", fail)
        service.take(SevereCallsStored(1.0, [ExplainedCall(call, "", "")]), engine)
    broker.client.set(broker.keys.dashboard, "http://127.0.0.1:1234/")
    service.take(Tick(2.0), engine)
    service.stop()
    close(engine)
    (alert,) = (msgspec.json.decode(body, type=CallAlert) for body in got)
    assert (alert.call, alert.dashboard) == (call.id, f"http://127.0.0.1:1234/r/{RUN_ID}/call/0/1:3:7")


def test_storing_does_not_wait_for_a_sink(
    broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertservice, "STOP_S", 0.0)
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    release = threading.Event()
    began_s = time.monotonic()
    write(broker, url, lambda body: release.wait(PATIENCE_S) and None, *(severe(n, n) for n in range(1, 300)))
    assert time.monotonic() - began_s < PATIENCE_S
    release.set()
    engine = open_for_reading(url)
    assert Provenance(engine, RUN_ID).calls.count(CallFilter()) == 299
    engine.dispose()


def test_of_what_is_known_or_ignored_no_alert_is_sent(broker: RunBroker, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'provenance.sqlite'}"
    make_store(url)
    engine = open_for_writing(url)
    slow = Recurrence(
        0, RecurrenceKind.SLOW_MODE, "solve", 9, 5000.0, 1.0, 2.0, ["solve"], [0], 0, 1, [], 0.5
    )
    (found,) = Writer(engine, RUN_ID).write_recurrences([slow])
    close(engine)
    severe = SevereCall((0, 1, 3, 7), "solve", 0, "node7", 3, 1, False, 5000.0, 7.0)
    got: list[bytes] = []
    for state, alerts in ((MarkState.KNOWN, 0), (MarkState.NOTED, 1)):
        write_mark(url, RUN_ID, Mark(found.id, state, "", "ada", 1))
        reading = open_for_reading(url)
        service = AlertService(RUN_ID, LEAST_US, broker, [Sink("sink", got.append)], print)
        service.take(RecurrencesStored(0.0, [found]), reading)
        service.take(SevereCallsStored(0.0, [ExplainedCall(severe, "", "")]), reading)
        service.stop()
        close(reading)
        assert len(got) == 2 * alerts
