"""Readers that die or hang, with the real fork server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Phase
from chimbuko.ad.streams import streamsupervisor
from chimbuko.ad.streams.forkserver import ForkServer
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.ad.streams.streamsupervisor import Supervisor
from chimbuko.capture.trace.discovery import Transport, parse_stream_path
from chimbuko.core.calls.record import UNREADABLE_STREAMS, StreamHealth
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.sourcecensus import SourceCensus
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, NO_EPOCH, RecordBatch
from tests.ad.forking import warm_fork_server
from tests.ad.spinning import spinning
from tests.capture.trace.whole_streams import random_stream, write_stream
from tests.patience import PATIENCE_S

CORE = min(os.sched_getaffinity(0))
STARVED_S = 4.0


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = warm_fork_server()
    yield server
    server.close()


def recorded(path: Path, folder: Path, lockstep: bool = False) -> StreamHandle:
    config = AnalysisConfig(lockstep=lockstep)
    name = parse_stream_path(path)
    assert name is not None
    return StreamHandle(name, Transport.RECORDED, 0, "node1", folder, config, make_detector(config).schema)


def supervise(forks: ForkServer, stream: StreamHandle, look: Callable[[], object] = lambda: None) -> None:
    """Until the stream is over."""
    found = [stream]
    watched: list[StreamHandle] = []
    watcher = Supervisor(forks, watched, lambda: [found.pop()] if found else [])
    deadline = time.monotonic() + PATIENCE_S
    while not stream.is_over:
        assert time.monotonic() < deadline
        watcher.tick()
        look()
        time.sleep(0.01)


def last_health(stream: StreamHandle) -> StreamHealth:
    (*_, (_, frame)) = stream.delivery.take(1 << 20)
    return msgspec.msgpack.decode(frame, type=RecordBatch).health


def test_stream_read_to_its_end(forks: ForkServer, tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, random_stream(1, [(4, 2, 2), (3, 1, 1)]), "BP5")
    stream = recorded(path, tmp_path / "stream")
    supervise(forks, stream)
    health = last_health(stream)
    assert (health.state, health.steps, health.rows) == ("ended", 2, 13)


def test_stream_whose_reader_hangs_is_lost(
    forks: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamsupervisor, "HUNG_S", 1.5)
    path = tmp_path / "tau-metrics-app-3.bp"
    path.mkdir()
    # Whoever opens it waits for a writer.
    os.mkfifo(path / "md.idx")
    stream = recorded(path, tmp_path / "stream")
    supervise(forks, stream)
    health = last_health(stream)
    assert (health.rank, health.state, health.steps, health.rows) == (3, "lost", 0, 0)


@pytest.mark.thorough
def test_a_reader_that_gets_no_core_is_not_mistaken_for_one_that_hangs(
    forks: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamsupervisor, "HUNG_S", 2.5)
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, random_stream(1, [(4, 2, 2)] * 500), "BP5")
    stream = recorded(path, tmp_path / "stream")
    with spinning(CORE), spinning(CORE):
        starved_at_s = 0.0

        def starve() -> None:
            nonlocal starved_at_s
            with suppress(ProcessLookupError):
                if stream.pid and not starved_at_s:
                    starved_at_s = time.monotonic()
                    os.sched_setaffinity(stream.pid, {CORE})
                    os.sched_setscheduler(stream.pid, os.SCHED_IDLE, os.sched_param(0))
                elif stream.pid and time.monotonic() - starved_at_s > STARVED_S:
                    os.sched_setscheduler(stream.pid, os.SCHED_OTHER, os.sched_param(0))

        supervise(forks, stream, starve)
    health = last_health(stream)
    assert (health.state, health.steps, health.rows) == ("ended", 500, 4000)


def waiting_stream(folder: Path) -> StreamHandle:
    """In lockstep its reader waits at the second of three steps for an epoch that nobody closes; the first
    one has no time.
    """
    path = folder / "tau-metrics-app-0.bp"
    steps = random_stream(1, [(4, 2, 2)] * 3)
    steps[1].events[:, -1] = 1_000_000_000
    write_stream(path, steps, "BP5")
    return recorded(path, folder / "stream", lockstep=True)


def kill(stream: StreamHandle) -> None:
    # Its end may not have been heard of since the last look.
    with suppress(ProcessLookupError):
        os.kill(stream.pid, signal.SIGKILL)


def test_a_recorded_stream_whose_reader_is_killed_is_read_to_its_end(
    forks: ForkServer, tmp_path: Path
) -> None:
    stream = waiting_stream(tmp_path)

    def kill_first() -> None:
        if stream.pid and stream.phase is Phase.WAITING:
            if stream.attempts == 1:
                kill(stream)
            else:
                stream.box.put_model(1, ALL_EPOCHS, NO_EPOCH, stream.schema.empty(1))

    supervise(forks, stream, kill_first)
    health = last_health(stream)
    assert (health.state, health.steps, health.rows) == ("ended", 3, 24)
    assert stream.attempts == 2


def test_a_recorded_stream_each_of_whose_readers_dies_is_lost_with_what_was_read(
    forks: ForkServer, tmp_path: Path
) -> None:
    stream = waiting_stream(tmp_path)

    def kill_waiting() -> None:
        if stream.pid and stream.phase is Phase.WAITING:
            kill(stream)

    supervise(forks, stream, kill_waiting)
    health = last_health(stream)
    assert (health.state, health.steps, health.rows) == ("lost", 1, 8)


def test_what_a_source_says_after_its_stream_was_given_up_counts(tmp_path: Path) -> None:
    stream = recorded(tmp_path / "tau-metrics-app-0.bp", tmp_path / "stream")
    stream.give_up(UNREADABLE_STREAMS)
    assert last_health(stream).source is None
    source = SourceCensus("the recorder", 7)
    source.leave_beside(stream.name.path)
    stream.look_for_census()
    health = last_health(stream)
    assert (health.state, health.source, health.losses) == ("lost", source, {UNREADABLE_STREAMS: 1})
    assert stream.new_word() == health
    stream.look_for_census()
    assert stream.delivery.take(1 << 20) == []
