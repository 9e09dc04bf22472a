"""Following a run over a real broker, and by its store alone."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import redis

from chimbuko.core.errors import ServiceError
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.messages import PAYLOAD, Frame
from chimbuko.viz.live import feedcore
from chimbuko.viz.live.feed import Feed, Update
from tests.patience import PATIENCE_S
from tests.viz.made_run import MadeRun, make_run, store


class Listener:
    """Collects updates, and waits for what they must come to."""

    def __init__(self) -> None:
        self.updates: queue.Queue[Update] = queue.Queue()
        self.steps: dict[tuple[int, int], list[int]] = {}

    def until(self, happened: Callable[[Update], bool]) -> Update:
        """The first update for which it is true."""
        while True:
            update = self.updates.get(timeout=PATIENCE_S)
            for key, steps in update.steps.items():
                self.steps.setdefault(key, []).extend(step.step for step in steps)
            if happened(update):
                return update


@contextmanager
def following(made: MadeRun, broker_url: str | None) -> Iterator[tuple[Feed, Listener]]:
    """A feed of the run at work."""
    feed = Feed(made.directory, open_run(made.directory), broker_url)
    listener = Listener()
    feed.on_update = listener.updates.put
    feed.start()
    try:
        yield feed, listener
    finally:
        feed.stop()


def publish(client: redis.Redis, run: MadeRun, frame: Frame) -> None:
    """As the parameter server does."""
    client.xadd(run.keys.frames, {PAYLOAD: run.seal.encode(frame)})


@pytest.fixture
def running(tmp_path: Path) -> MadeRun:
    """A run that goes on, of which the first 20 steps are stored."""
    return make_run(tmp_path / "heat", "running", 20)


def test_a_look_that_fails_is_not_the_last_one(
    running: MadeRun, broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[Feed] = []
    look = Feed._round

    def fail_once(self: Feed) -> bool:
        if not failed:
            failed.append(self)
            raise RuntimeError("it was not thought of")
        return look(self)

    monkeypatch.setattr(Feed, "_round", fail_once)
    client = connect(broker.url)
    publish(client, running, running.frame(1, 20))
    with following(running, broker.url) as (_, listener):
        listener.until(lambda update: update.status.last_step == 20)
    assert failed


def test_frames_extend_what_the_store_knew(running: MadeRun, broker: PrivateBroker) -> None:
    client = connect(broker.url)
    publish(client, running, running.frame(1, 20))
    with following(running, broker.url) as (feed, listener):
        listener.until(lambda update: update.status.last_step == 20)
        publish(client, running, running.frame(2, 21))
        update = listener.until(lambda update: update.status.last_step == 21)
        assert update.status.anomalies == sum(row.total for row in running.rank_statistics(22))
        assert {(row.rank, row.steps, row.total) for row in feed.state.totals.ranking("total", 5).top} == {
            (row.rank, row.steps, row.total) for row in running.rank_statistics(22)
        }
        assert listener.steps[0, 1] == [20, 21]
        assert (0, 2) not in listener.steps, "rank 2 lost these steps"
        assert [step.step for step in feed.state.totals.recent_steps([(0, 1)])] == [20, 21]
    client.close()


def test_what_was_before_the_first_visitor_is_known(running: MadeRun, broker: PrivateBroker) -> None:
    client, began_ms = connect(broker.url), 1_000 * round(time.time()) - 60_000
    for step in range(21):
        payload = running.seal.encode(running.frame(1 + step, step))
        client.xadd(running.keys.frames, {PAYLOAD: payload}, id=f"{began_ms + 1_000 * step}-0")
    with following(running, broker.url) as (feed, listener):
        listener.until(lambda _: len(feed.state.vitals) > 21)
        before, now = feed.state.vitals[:21], feed.state.vitals[21:]
    assert [one.time_us for one in before] == [1_000 * (began_ms + 1_000 * step) for step in range(21)]
    assert [one.rows for one in before] == [
        sum(stream.rows for stream in running.health(step + 1)) for step in range(21)
    ]
    assert now and {one.rows for one in now} == {before[-1].rows}
    client.close()


def test_missed_frames_are_made_up_for_from_the_store(
    running: MadeRun, broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedcore, "STORE_EVERY_S", 0.0)
    client = connect(broker.url)
    publish(client, running, running.frame(1, 20))
    with following(running, broker.url) as (feed, listener):
        listener.until(lambda update: update.status.last_step == 20)
        engine = open_for_writing(running.directory.read_info().store_url)
        store(Writer(engine, running.directory.read_info().id), running, 20, 31)
        engine.dispose()
        client.xadd(running.keys.frames, {PAYLOAD: b"\xc1 not a frame"})
        update = listener.until(lambda update: update.resync)
        assert update.status.last_step == 30
        assert feed.state.totals.ranking("mean", 9).ranks == 5
        publish(client, running, running.frame(9, 35))
        assert listener.until(lambda update: update.resync).status.last_step == 35
    client.close()


def test_who_comes_late_asks_the_server_for_all_it_knows(running: MadeRun, broker: PrivateBroker) -> None:
    client = connect(broker.url)
    publish(client, running, running.frame(9, 35))
    with following(running, broker.url) as (feed, listener):
        while client.getdel(running.keys.part(0).snapshot_wanted) is None:
            time.sleep(0.01)
        whole = running.frame(9, 35)
        client.set(
            running.keys.part(0).snapshot,
            running.seal.encode(msgspec.structs.replace(whole, health=running.health(36))),
        )
        listener.until(lambda update: update.resync and feed.state.totals.streams() == running.health(36))
        publish(client, running, running.frame(10, 36))
        listener.until(lambda update: update.status.last_step == 36)
    client.close()


def test_a_broker_that_comes_back_is_followed_again(
    running: MadeRun, broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimbuko.viz.live.status.STALE_AFTER_S", 0.5)
    client = connect(broker.url)
    publish(client, running, running.frame(1, 20))
    with following(running, broker.url) as (_, listener):
        listener.until(lambda update: update.status.last_step == 20)
        broker.stop()
        update = listener.until(lambda update: "broker has not answered" in update.status.sentence)
        assert update.status.state == "stale"
        assert update.status.last_step == 20, "what was known stays known"
        broker.start()
        publish(client, running, running.frame(2, 21))
        update = listener.until(lambda update: update.status.last_step == 21)
        assert "broker" not in update.status.sentence
    client.close()


def test_the_end_is_noticed_and_the_store_read_once_more(running: MadeRun, broker: PrivateBroker) -> None:
    client = connect(broker.url)
    with following(running, broker.url) as (_, listener):
        publish(client, running, running.frame(1, 30, is_last=True))
        update = listener.until(lambda update: update.status.state == "ended")
        assert "being stored" in update.status.sentence
        info = running.directory.read_info()
        engine = open_for_writing(info.store_url)
        store(Writer(engine, info.id), running, 20, 60)
        engine.dispose()
        running.directory.write_info(msgspec.structs.replace(info, state="finished", exit_code=0))
        update = listener.until(lambda update: update.resync)
        assert update.status.sentence == "Finished, exit 0."
        assert update.status.last_step == 59
    client.close()


def test_without_broker_the_store_is_followed(running: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedcore, "STORE_EVERY_S", 0.0)
    with following(running, None) as (feed, listener):
        listener.until(lambda update: update.status.last_step == 19)
        engine = open_for_writing(running.directory.read_info().store_url)
        store(Writer(engine, running.directory.read_info().id), running, 20, 40)
        engine.dispose()
        update = listener.until(lambda update: update.status.last_step == 39)
        assert update.resync
        assert not feed.is_live


def test_a_heartbeat_comes_even_when_nothing_happens(finished: MadeRun) -> None:
    with following(finished, None) as (_, listener):
        first = listener.until(lambda update: True)
        assert listener.until(lambda update: update.status.version == first.status.version)


def test_a_url_that_is_none_is_not_repeated(finished: MadeRun) -> None:
    with pytest.raises(ServiceError, match="cannot be understood") as error:
        Feed(finished.directory, open_run(finished.directory), "http://:hidden@127.0.0.1")
    assert "hidden" not in str(error.value)
