"""Flight recorders asked over a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.agent import recorderservice
from chimbuko.ad.agent.recorderservice import RecorderService
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell
from chimbuko.ad.handoff.flightrecorder import FlightRecorder
from chimbuko.ad.handoff.namesfile import NamesFile
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import PAYLOAD, RecallAnswer, RecallRequest
from chimbuko.runtime.protocol.runbroker import RunBroker

NAMES = StreamNames(timers={4: "relax"})
CALLS = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunBroker]:
    with PrivateBroker(tmp_path_factory.mktemp("broker") / "log") as private:
        yield RunBroker.connect(private.url, "run")


def recorded_stream(folder: Path, rank: int, first_us: int, size_bytes: int = 1 << 20) -> StreamHandle:
    """Two steps with a call of 5 µs every 10 µs; all but the newest are given up where there is no room."""
    config = AnalysisConfig()
    name = StreamName("app", rank, folder / f"app-{rank}.bp")
    stream = StreamHandle(
        name, Transport.SST, 0, "node1", folder / f"0-{rank}", config, make_detector(config).schema
    )
    NamesFile(stream.folder / "names").save(NAMES)
    stream.box[Cell.NAMES_VERSION] += 1
    recorder = FlightRecorder(stream.recorder_path, size_bytes, rank)
    for number in range(2):
        starts = first_us + 10 * np.arange(number * CALLS, (number + 1) * CALLS)
        events = np.zeros((2 * CALLS, 6), np.uint64)
        events[:, 1], events[:, 3], events[:, 4] = rank, [0, 1] * CALLS, 4
        events[0::2, 5], events[1::2, 5] = starts, starts + 5
        step = TraceStep(number, events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64))
        recorder.append(step, np.empty((0, 2), np.uint64))
    return stream


ANSWERS = msgspec.msgpack.Decoder(RecallAnswer)


def ask(broker: RunBroker, service: RecorderService, request: RecallRequest) -> dict[str, RecallAnswer]:
    broker.client.xadd(broker.keys.recall_requests, {PAYLOAD: broker.seal.encode(request)})
    for _ in range(10):
        service.serve()
    key = broker.keys.recall_answers(request.id)
    answers = [broker.seal.decode(answer, ANSWERS) for answer in broker.client.lrange(key, 0, -1)]
    if answers:
        assert 0 < broker.client.ttl(key) <= recorderservice.ANSWERS_LIVE_S, "what nobody fetches must go"
    return {answer.stream: answer for answer in answers}


@pytest.fixture
def service(broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecorderService:
    monkeypatch.setattr(recorderservice, "POLL_S", 0.0)
    broker.client.delete(broker.keys.recall_requests)
    streams = [
        recorded_stream(tmp_path, 0, 1000),
        recorded_stream(tmp_path, 1, 1000, size_bytes=4096),
        recorded_stream(tmp_path, 2, 9_000_000),
    ]
    return RecorderService(broker, streams)


def test_each_stream_that_is_asked_gives_its_rows_of_the_interval(
    broker: RunBroker, service: RecorderService
) -> None:
    answers = ask(broker, service, RecallRequest("a", 1995, 2015, ["0:0", "0:1", "0:7"]))
    assert answers.keys() == {"0:0", "0:1"}, "streams of other agents are answered by these"
    whole, newest = answers["0:0"], answers["0:1"]
    times = [int(t) for step in whole.steps for t in step.trace_step(0, with_open=False).events[:, 5]]
    assert times == [1995, 2000, 2005, 2010, 2015]
    assert (whole.since_us, whole.rank, whole.names.timers, whole.is_left_out) == (0, 0, {4: "relax"}, False)
    assert newest.since_us == 2000
    assert [step.step for step in newest.steps] == [1]


def test_what_was_open_then_comes_first(broker: RunBroker, service: RecorderService) -> None:
    (step,) = ask(broker, service, RecallRequest("b", 1003, 1008, ["0:0"]))["0:0"].steps
    events = step.trace_step(0, with_open=True).events
    assert events[:, (3, 5)].tolist() == [[0, 1000], [1, 1005]]


def test_answers_are_bounded_over_all_streams(
    broker: RunBroker, service: RecorderService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorderservice, "MOST_ANSWER_BYTES", 2 * CALLS * 16 * 3)
    answers = ask(broker, service, RecallRequest("c", 0, 10_000_000, ["0:0", "0:1", "0:2"]))
    left_out = {stream for stream, answer in answers.items() if answer.is_left_out}
    assert left_out == {"0:2"}
    assert answers["0:2"].steps == []


def test_moment_before_anything_was_recorded_gives_nothing(
    broker: RunBroker, service: RecorderService
) -> None:
    assert ask(broker, service, RecallRequest("d", 5, 10, ["0:2"]))["0:2"].steps == []
