"""The writer's service finds incidents while it writes, and goes on writing whatever happens to that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from chimbuko.causes.incidents import tracker
from chimbuko.causes.recurrence import Recurrence
from chimbuko.provenance.alerts.alertservice import AlertService
from chimbuko.provenance.alerts.sinks import Sink
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service import explainer
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService
from chimbuko.provenance.service.storing import Storing
from chimbuko.provenance.write.events import Tick
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.causes.stories import ORIGIN, chain
from tests.provenance.livestore import Clock
from tests.sample_records import RUN_ID, make_batches


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunBroker]:
    with PrivateBroker(tmp_path / "broker.log") as private, connect(private.url) as client:
        yield RunBroker(client, RUN_ID)


def serve(service: WriterService, broker: RunBroker) -> None:
    """Send the chain, and store it."""
    for batch in make_batches(chain()):
        broker.client.xadd(broker.keys.records, {PAYLOAD: broker.seal.encode(batch)})
    while not service.serve_once(is_stopping=True):
        pass


def test_incidents_are_there_before_the_run_ends(
    broker: RunBroker, writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    service = WriterService(broker, Destination(engine.url.render_as_string(False), RUN_ID))
    serve(service, broker)
    (told,) = Incidents(provenance.reader).page().incidents
    assert (told.call_id, told.flags) == (ORIGIN, 4)
    service.close()


def test_an_alert_tells_the_incident(
    broker: RunBroker, writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    sent: list[bytes] = []
    url = engine.url.render_as_string(False)
    alerts = AlertService(RUN_ID, 98_000.0, broker, [Sink("list", sent.append)], print)
    service = WriterService(broker, Destination(url, RUN_ID, severe_us=98_000.0), [alerts.take])
    serve(service, broker)
    service.close()
    alerts.stop()
    (alert,) = map(json.loads, sent)
    assert (alert["call"], alert["incident"]) == (ORIGIN, "I1")
    assert alert["sentence"].startswith("compute on rank 3 took 100 ms")


def test_what_recurs_is_looked_for_as_often_as_that_may_cost(
    writer: Writer, engine: Engine, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    looked_s = []

    def slowly(*_: object) -> list[Recurrence]:
        looked_s.append(clock.now_s)
        clock.now_s += 1.0
        return []

    monkeypatch.setattr(explainer, "recurring", slowly)
    url = engine.url.render_as_string(False)
    explaining = Storing(Destination(url, RUN_ID), lambda _: None, lambda _: None, clock).explainer
    while clock.now_s < 260.0:
        explaining.take(Tick(clock.now_s, False))
        clock.now_s += 0.5
    assert looked_s == pytest.approx([105.0, 155.0, 205.0, 255.0], abs=1.0), "each takes 2 % of the time"


def test_a_fault_in_explaining_keeps_nothing_from_the_store(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("made by a test")

    monkeypatch.setattr(tracker, "split", fail)
    service = WriterService(broker, Destination(engine.url.render_as_string(False), RUN_ID))
    serve(service, broker)
    serve(service, broker)
    service.close()
    assert provenance.calls.count(CallFilter()) == 4
    # It costs the incidents that it is in their explanation, and nothing else.
    assert {one.kind for one in Incidents(provenance.reader).page().incidents} == {"not explained"}
    assert "made by a test" in capfd.readouterr().err
