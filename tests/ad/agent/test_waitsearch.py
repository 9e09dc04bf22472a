"""Agents asked over a real broker who waited, out of real flight recorders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.agent import recorderservice
from chimbuko.ad.agent.recorderservice import WaitSearch
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch, WaitsRequest
from chimbuko.runtime.protocol.runbroker import RunBroker

NAMES = StreamNames(
    event_types={0: "ENTRY", 1: "EXIT", 2: "SEND", 3: "RECV"}, timers={4: "MPI_Barrier()", 5: "relax"}
)
BATCHES = msgspec.msgpack.Decoder(RecordBatch)
REQUEST = WaitsRequest(0, 100_000, 180_000, 8_000.0, {0: 0, 1: 50, 7: 0})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunBroker]:
    with PrivateBroker(tmp_path_factory.mktemp("broker") / "log") as private:
        yield RunBroker.connect(private.url, "run")


def stream_of(folder: Path, rank: int, lasts_us: int, timer: int = 4) -> StreamHandle:
    """Barriers of 1 ms, and of a function three calls of 1 ms and one from 100 ms on that takes so long; no
    process reads it any more.
    """
    config = AnalysisConfig()
    name = StreamName("app", rank, folder / f"app-{rank}.bp")
    stream = StreamHandle(
        name, Transport.SST, 0, "node1", folder / f"0-{rank}", config, make_detector(config).schema
    )
    NamesFile(stream.folder / "names").save(NAMES)
    stream.box[Cell.NAMES_VERSION] += 1
    stream.is_over = True
    calls = [(4, at_us, 1_000) for at_us in (1_000, 3_000)]
    calls += [(timer, at_us, 1_000) for at_us in (5_000, 7_000, 9_000)] + [(timer, 100_000, lasts_us)]
    rows = [(0, rank, 0, end, of, us + end * length) for of, us, length in calls for end in (0, 1)]
    events = np.array(rows, np.uint64)
    step = TraceStep(0, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
    FlightRecorder(stream.recorder_path, 1 << 20, rank).append(step, np.empty((0, 2), np.uint64))
    return stream


@pytest.fixture
def streams(tmp_path: Path) -> list[StreamHandle]:
    return [stream_of(tmp_path, 0, 80_000), stream_of(tmp_path, 1, 70_000), stream_of(tmp_path, 2, 80_000)]


@pytest.fixture
def search(broker: RunBroker, streams: list[StreamHandle], monkeypatch: pytest.MonkeyPatch) -> WaitSearch:
    monkeypatch.setattr(recorderservice, "SEARCH_POLL_S", 0.0)
    broker.client.delete(broker.keys.waits_requests, broker.keys.records)
    return WaitSearch("agent-0", broker, streams)


def ask(broker: RunBroker, request: WaitsRequest) -> None:
    broker.client.xadd(broker.keys.waits_requests, {PAYLOAD: broker.seal.encode(request)})


def answered(broker: RunBroker) -> dict[int, tuple[str, int, int]]:
    """By rank, id, entry and exit of what was found."""
    found = {}
    for _, payload in broker.read(broker.keys.records, b"0", 100):
        batch = broker.seal.decode(payload, BATCHES)
        assert not batch.is_from_stream
        for record in unpack(batch.records, batch.health, ""):
            found[record.rank] = record.id, record.entry_us, record.exit_us
    return found


def test_those_who_are_asked_answer_with_their_waits(broker: RunBroker, search: WaitSearch) -> None:
    ask(broker, REQUEST)
    for _ in range(3):
        search.serve()
    assert answered(broker) == {0: ("0:0:0:10", 100_000, 180_000), 1: ("0:1:0:10", 100_000, 170_000)}
    search.finish()
    assert len(answered(broker)) == 2


def test_who_lost_time_by_itself_answers_where_that_is_asked_for(
    broker: RunBroker, search: WaitSearch, streams: list[StreamHandle], tmp_path: Path
) -> None:
    streams.append(stream_of(tmp_path, 7, 75_000, timer=5))
    ask(broker, REQUEST)
    search.finish()
    assert answered(broker).keys() == {0, 1}
    ask(broker, msgspec.structs.replace(REQUEST, least_own_us=40_000.0))
    search.finish()
    assert answered(broker)[7] == ("0:7:0:10", 100_000, 175_000)


def test_a_stream_is_asked_once_its_recorder_has_the_interval_or_it_is_late(
    broker: RunBroker, search: WaitSearch, streams: list[StreamHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    streams[1].is_over = False
    ask(broker, REQUEST)
    for _ in range(3):
        search.serve()
    assert answered(broker).keys() == {0}
    monkeypatch.setattr(recorderservice, "PATIENCE_S", 0.0)
    search.serve()
    assert answered(broker).keys() == {0, 1}


def test_at_the_end_all_is_answered_at_once(broker: RunBroker, search: WaitSearch) -> None:
    ask(broker, REQUEST)
    search.finish()
    assert answered(broker).keys() == {0, 1}
