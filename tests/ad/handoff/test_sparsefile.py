"""Files of a stream where there is no room for them, and its processes where there is no memory."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import ExchangeBox
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.handoff.sparsefile import SparseFile
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.ad.streams.streamsupervisor import Supervisor
from chimbuko.capture.trace.discovery import Transport, parse_stream_path
from chimbuko.core.calls.record import UNREADABLE_STREAMS
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.pserver.state.savedstate import read_state, write_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.ad.forking import warm_fork_server
from tests.ad.handoff.test_exchange import STEPS, analyse, calls_known, forked, make_analysis
from tests.capture.trace.whole_streams import random_stream, write_stream
from tests.integration.smallroom import NotPermitted, SmallRoom, small_room
from tests.patience import PATIENCE_S

LITTLE_BYTES = 1 << 20
"""Less than there is in use already: whatever is mapped is refused. With something left a reader got by where
tests before it had left their memory to the heap."""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SmallRoom]:
    """A file system of a megabyte."""
    try:
        with small_room(tmp_path / "room", "size=1m") as mounted:
            yield mounted
    except NotPermitted as reason:
        pytest.skip(str(reason))


def test_what_finds_no_room_in_the_exchange_stays_with_the_stream(room: SmallRoom) -> None:
    agent = ExchangeBox(room.path / "exchange", PROFILE)
    (is_refused, say_refused), (is_empty, say_empty) = os.pipe(), os.pipe()
    room.fill()

    def stream() -> None:
        box, analysis = ExchangeBox(room.path / "exchange", PROFILE), make_analysis()
        analyse(analysis, 0, 11)
        with pytest.raises(OSError, match="No space left"):
            box.exchange(analysis, STEPS[:1])
        assert calls_known(analysis) == 10
        os.write(say_refused, b"!")
        os.read(is_empty, 1)
        analyse(analysis, 1, 5)
        assert box.exchange(analysis, STEPS[:2])

    with forked(stream):
        os.read(is_refused, 1)
        room.empty()
        os.write(say_empty, b"!")
    for end in (is_refused, say_refused, is_empty, say_empty):
        os.close(end)
    taken = agent.take()
    assert taken is not None and [step.step for step in taken.steps] == [0, 1]
    assert taken.learned.table[0, 0] == 15


def test_an_agent_without_room_gives_the_model_that_fits(room: SmallRoom) -> None:
    box = ExchangeBox(room.path / "exchange", PROFILE)
    assert box.put_model(1, 0, 0, PROFILE.empty(2))
    room.fill()
    assert box.put_model(2, 1, 0, PROFILE.empty(5000))
    assert not box.has_whole_model
    room.empty()
    box.take_model(make_analysis())


def test_a_box_that_found_no_room_is_made_when_there_is(room: SmallRoom) -> None:
    room.fill()
    with pytest.raises(OSError, match="No space left"):
        ExchangeBox(room.path / "exchange", PROFILE)
    room.empty()
    box, analysis = ExchangeBox(room.path / "exchange", PROFILE), make_analysis()
    analyse(analysis, 0, 11)
    # Nothing of what was begun before is taken for a model.
    box.take_model(analysis)
    assert calls_known(analysis) == 10


def test_open_calls_without_room_are_reported_to_nobody(room: SmallRoom) -> None:
    room.fill()
    reported = OpenCallsFile(room.path / "open-calls")
    reported.forget()
    assert (reported.has_room, reported.steps) == (False, 0)


def test_the_state_of_a_server_that_finds_no_room_leaves_the_one_before(room: SmallRoom) -> None:
    state = ServerState()
    write_state(room.path / "statistics", state.save())
    room.fill()
    state.name_programs(dict.fromkeys(range(1000), "program"))
    with pytest.raises(OSError, match="No space left"):
        write_state(room.path / "statistics", state.save())
    assert sorted(path.name for path in room.path.iterdir()) == ["filler", "statistics"]
    saved = read_state(room.path / "statistics")
    assert saved is not None and saved.programs == {}


def test_a_stream_for_which_there_is_no_memory_is_given_up_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tau-metrics-app-0.bp"
    write_stream(path, random_stream(1, [(4, 2, 2)]), "BP5")
    name, config = parse_stream_path(path), AnalysisConfig()
    assert name is not None
    stream = StreamHandle(
        name, Transport.FILES, 0, "node1", tmp_path / "stream", config, make_detector(config).schema
    )
    forks = warm_fork_server()
    resource.prlimit(forks.pid, resource.RLIMIT_AS, (LITTLE_BYTES, LITTLE_BYTES))
    found = [stream]
    supervisor = Supervisor(forks, [], lambda: [found.pop()] if found else [])
    latest_s = time.monotonic() + PATIENCE_S
    while not stream.is_over:
        assert time.monotonic() < latest_s
        supervisor.tick()
        time.sleep(0.01)
    forks.close()
    assert stream.attempts == 1
    (*_, (_, frame)) = stream.delivery.take(1 << 20)
    health = msgspec.msgpack.decode(frame, type=RecordBatch).health
    assert (health.state, health.losses) == ("lost", {UNREADABLE_STREAMS: 1})


def test_pages_for_rows_that_lie_anywhere(tmp_path: Path) -> None:
    """Also for rows larger than a page, and each once."""
    file = SparseFile(tmp_path / "sparse", 1 << 24)
    file.allocate_rows(100, 10_000, np.array([0, 7, 900]))
    pages = (tmp_path / "sparse").stat().st_blocks * 512 // resource.getpagesize()
    assert 9 <= pages <= 12
    file.allocate_rows(100, 10_000, np.array([7]))
    assert (tmp_path / "sparse").stat().st_blocks * 512 // resource.getpagesize() == pages
