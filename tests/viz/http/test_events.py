"""Frames on their way to pages: all end as the database says, and one that does not read harms nobody."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask import Flask
from flask_socketio import SocketIO
from werkzeug.serving import make_server

from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.viz.http.events import MOST_WAITING, Events
from chimbuko.viz.live.feed import Feed, Update
from chimbuko.viz.live.grid import GridUpdate
from tests.patience import PATIENCE_S
from tests.viz.conftest import dashboard
from tests.viz.livepage import LivePage
from tests.viz.made_run import RANKS, STEPS, MadeRun, make_run, store

PAGES = 4
STORED = 20


def test_every_page_ends_in_the_state_of_the_database(tmp_path: Path, broker: PrivateBroker) -> None:
    made = make_run(tmp_path / "heat", "running", STORED)
    client = connect(broker.url)
    with dashboard(made, broker.url) as process:
        pages = [LivePage(process.base) for _ in range(PAGES)]
        for number, page in enumerate(pages[:-1]):
            page.watch([f"0:{number}", f"0:{RANKS - 1}"])
            page.read_grid()
        for step in range(STORED, STEPS):
            is_last = step == STEPS - 1
            frame = made.frame(step - STORED + 1, step, is_last)
            client.xadd(made.keys.frames, {PAYLOAD: made.seal.encode(frame)})
            if step == STEPS // 2:
                # One comes late.
                pages[-1].watch(["0:1"])
                pages[-1].read_grid()
        finish(made)
        for page in pages:
            # The end is reported, and after it that what was missed can be read.
            while page.next()["status"]["sentence"] != "Finished, exit 0.":
                pass
            page.next()
        check(made, pages)
        for page in pages:
            page.close()
    client.close()


def finish(made: MadeRun) -> None:
    """The run ends, and all of it is stored."""
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    store(Writer(engine, info.id), made, STORED, STEPS)
    engine.dispose()
    made.directory.write_info(msgspec.structs.replace(info, state="finished", exit_code=0))


def check(made: MadeRun, pages: list[LivePage]) -> None:
    with open_run(made.directory) as provenance:
        steps = {rank: provenance.steps.counts([(0, rank)]) for rank in range(RANKS)}
        ranks = provenance.steps.rank_statistics()
    grid = [[255] * STEPS for _ in range(RANKS)]
    for rank, counted in steps.items():
        for step in counted:
            grid[rank][step.step] = step.anomalies
    for page in pages:
        assert page.shown() == grid
        for name, rows in page.steps.items():
            counted = steps[int(name.partition(":")[2])]
            assert {number: row[4] for number, row in rows.items()} == {s.step: s.anomalies for s in counted}
        ranking = page.ask("ranks?statistic=total&n=5")
        assert {row["rank"]: row["total"] for row in ranking["top"]} == {row.rank: row.total for row in ranks}
        status = page.frames[-1]["status"]
        assert (status["state"], status["anomalies"]) == ("ended", sum(row.total for row in ranks))
        assert (status["steps"], status["last_step"]) == (sum(map(len, steps.values())), STEPS - 1)


class SleepingPage:
    """A connection of which nothing is read until it is asked for."""

    def __init__(self, base: str) -> None:
        host, _, port = base.removeprefix("http://").rstrip("/").partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.sendall(
            b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            b"Sec-WebSocket-Version: 13\r\n\r\n"
        )
        self._stream = self._socket.makefile("rb")
        while self._stream.readline() != b"\r\n":
            pass
        assert self._packet().startswith(b"0")
        hello = b"40/events,"
        # A client masks what it sends; with zeros it stays what it is.
        self._socket.sendall(bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello)
        assert self._packet().startswith(hello)

    def next(self) -> Any:
        """The next frame."""
        packet = self._packet()
        if packet.startswith(b"452-"):
            self._packet()
            self._packet()
        return json.loads(packet.partition(b",")[2])[1]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _packet(self) -> bytes:
        _, length = self._stream.read(2)
        if length >= 126:
            length = int.from_bytes(self._stream.read(2 if length == 126 else 8), "big")
        return self._stream.read(length)


@contextmanager
def events_of(sockets: SocketIO, app: Flask) -> Iterator[str]:
    """A server of these events alone."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def large(finished: MadeRun) -> Iterator[Update]:
    """A frame that fills the buffers of a connection after a few."""
    with open_run(finished.directory) as provenance:
        feed = Feed(finished.directory, provenance, None)
        yield Update(feed.status(), {}, False, GridUpdate(1, 1, 1, bytes(2_000_000), b"", []))


def test_a_page_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed(large: Update) -> None:
    app = Flask(__name__)
    # No pings: here it must not be thrown out for its silence.
    sockets = SocketIO(app, async_mode="threading", ping_interval=600)
    events = Events(sockets)
    with events_of(sockets, app) as base:
        asleep, awake = SleepingPage(base), LivePage(base)
        for _ in range(3 * MOST_WAITING):
            events.send(large)
            assert awake.next()["resync"] is False
        (page,) = events._behind
        # One more than the bound, in two packets each, and what its connection holds already.
        assert MOST_WAITING < events._waiting(page) <= MOST_WAITING + 4
        reported = 0
        while events._waiting(page) > 0:
            assert asleep.next()["resync"] is False
            reported += 1
        assert reported < 3 * MOST_WAITING
        events.send(msgspec.structs.replace(large, grid=None))
        while not asleep.next()["resync"]:
            pass
        assert awake.next()["resync"] is False
        assert not events._behind
        events.send(msgspec.structs.replace(large, grid=None))
        assert asleep.next()["resync"] is False
        asleep.close()
        awake.close()
