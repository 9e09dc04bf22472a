"""The watch over a node in its own thread, with a real broker and real processes: what it sends, and that its
errors end nothing but itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import redis

from chimbuko.ad.agent import nodewatch
from chimbuko.ad.agent.agenttelemetry import AgentTelemetry
from chimbuko.ad.agent.nodewatch import NodeWatch
from chimbuko.ad.agent.spoolshipper import AgentReports, AgentSpools, SpoolShipper
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.shortage import ShortageNotices
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.deltalog import DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.record import Metadata, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords, pack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.monitor.sampling.nodebatch import NodeBatch, PackedBatch, unpacked
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.patience import PATIENCE_S
from tests.sample_records import make_record

NOTHING = PackedRecords()
NO_PID = "9" * 5000
"""Python makes no number of so many digits."""
BROKEN = PackedRecords(heads=b"half a record")

node_batches = msgspec.msgpack.Decoder(PackedBatch)
record_batches = msgspec.msgpack.Decoder(RecordBatch)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path / "broker.log") as private:
        yield private


@pytest.fixture
def broker(private: PrivateBroker) -> RunBroker:
    return RunBroker.connect(private.url, "run")


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.02)


def pid_of(rank: str) -> list[Metadata]:
    return [Metadata(0, 3, 0, "pid", rank)]


def flagged_now() -> PackedRecords:
    """A call that ends now."""
    now_us = time.time_ns() // 1000
    return pack([make_record(entry_us=now_us - 500_000, exit_us=now_us)])


def watching(broker: RunBroker, is_first: bool = True) -> NodeWatch:
    return NodeWatch("here", broker, is_first, folder="/nowhere", streams=Path("/nowhere"))


def sent(broker: RunBroker) -> list[NodeBatch]:
    entries = broker.read(broker.keys.node_batches, b"0", 1000)
    return [unpacked(one.rows) for one in broker.seal.decoded(entries, node_batches)]


def news(broker: RunBroker) -> list[str]:
    return [line.decode() for _, line in broker.read(broker.keys.store_news, b"0", 100)]


def test_what_a_rank_did_around_a_flagged_call_is_sent(
    broker: RunBroker, rank: subprocess.Popen[bytes]
) -> None:
    watch = watching(broker)
    watch.note(0, 3, pid_of(str(rank.pid)), NOTHING)
    deadline = time.monotonic() + PATIENCE_S
    while not any(not one.is_sum and rank.pid in one.thread_rows()["pid"] for one in sent(broker)):
        assert time.monotonic() < deadline
        watch.note(0, 3, [], flagged_now())
        watch.send()
        time.sleep(0.1)
    watch.close()
    watch.send()
    (*_, last) = sent(broker)
    assert last.is_sum and len(last.core_rows()), "at the end there is the sum of all"
    found = [name for one in sent(broker) for name in one.names if name.pid == rank.pid]
    assert {(name.program, name.rank, name.thread) for name in found} == {(0, 3, 0)}
    sequences = [one.sequence for one in sent(broker)]
    assert sequences == sorted(set(sequences))
    assert news(broker) == []


def test_without_a_flagged_call_only_the_sum_leaves_the_node(
    broker: RunBroker, rank: subprocess.Popen[bytes]
) -> None:
    watch = watching(broker, is_first=False)
    watch.note(0, 3, pid_of(str(rank.pid)), NOTHING)
    until(lambda: watch._pids)
    watch.close()
    watch.send()
    assert all(one.is_sum and not len(one.core_rows()) for one in sent(broker))


def test_of_batches_that_wait_the_newest_are_kept(
    broker: RunBroker, rank: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodewatch, "MOST_WAITING", 1)
    watch = watching(broker)
    watch.note(0, 3, pid_of(str(rank.pid)), flagged_now())
    until(lambda: watch._batches)
    watch.close()
    watch.send()
    # What was around the call came before the last sum.
    assert [one.is_sum for one in sent(broker)] in ([True], [])


def test_what_is_ready_waits_while_the_broker_is_away(
    private: PrivateBroker, rank: subprocess.Popen[bytes]
) -> None:
    watch = watching(RunBroker.connect(private.url, "run"))
    watch.note(0, 3, pid_of(str(rank.pid)), NOTHING)
    private.__exit__(None, None, None)

    def is_refused() -> bool:
        watch.note(0, 3, [], flagged_now())
        try:
            watch.send()
        except redis.RedisError:
            return True
        return False

    until(is_refused)
    assert is_refused()
    watch.close()


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(lambda watch: watch.note(0, 3, pid_of(NO_PID), NOTHING), id="in its thread"),
        pytest.param(lambda watch: watch.note(0, 3, [], BROKEN), id="in a note"),
    ],
)
def test_an_error_ends_the_samples_and_is_reported_once(
    broker: RunBroker, cause: Callable[[NodeWatch], None], capfd: pytest.CaptureFixture[str]
) -> None:
    watch = watching(broker)
    cause(watch)
    until(lambda: (watch.send(), news(broker))[1])
    watch.note(0, 3, pid_of(NO_PID), BROKEN)
    watch.send()
    watch.close()
    watch.send()
    (line,) = news(broker)
    assert line.startswith("node here is not sampled any more (ValueError: ")
    assert capfd.readouterr().err.count("not sampled any more") == 1


def test_a_batch_that_the_broker_refuses_ends_the_samples(broker: RunBroker) -> None:
    broker.client.set(broker.keys.node_batches, b"no stream")
    watch = watching(broker)
    watch.note(0, 3, pid_of(str(os.getpid())), NOTHING)

    def is_reported() -> bool:
        watch.note(0, 3, [], flagged_now())
        watch.send()
        return bool(news(broker))

    until(is_reported)
    watch.close()
    watch.send()
    (line,) = news(broker)
    assert "WRONGTYPE" in line


def test_findings_are_delivered_although_the_samples_have_ended(tmp_path: Path, broker: RunBroker) -> None:
    config = AnalysisConfig()
    folder = tmp_path / "0-3"
    stream = StreamHandle(StreamName("", 3, folder), Transport.SST, 0, "here", folder, config, PROFILE)
    health = StreamHealth(0, 3, "here", "reading", 0, 0, 0, 0, 0, 0, {})
    spool = SpoolWriter(stream.delivery.folder, stream.key, 1 << 20)
    spool.append(SpoolFrame(pack([make_record()]), [], pid_of(NO_PID), health))
    statistics = AgentStatistics("agent", 1, PROFILE)
    notifier = AgentNotifier()
    watch = watching(broker)
    shipper = SpoolShipper(
        broker,
        ModelSync(broker, statistics, [], notifier, DeltaLog(tmp_path / "delta_log"), 1.0, False),
        AgentSpools([stream], SpoolDelivery("agent", tmp_path / "spool")),
        AgentReports(
            AgentTelemetry("here", os.getpid(), statistics, [stream]),
            ShortageNotices(broker, tmp_path, "here"),
            watch,
        ),
        notifier,
    )
    shipper.flush()

    def is_reported() -> bool:
        shipper.exchange_once()
        time.sleep(0.02)
        return bool(news(broker))

    until(is_reported)
    spool.append(SpoolFrame(pack([make_record(row=1)]), [], pid_of(NO_PID), health))

    def are_there() -> bool:
        shipper.exchange_once()
        return cast(Any, broker.client).xlen(broker.keys.records) == 2

    until(are_there)
    frames = broker.seal.decoded(broker.read(broker.keys.records, b"0", 10), record_batches)
    assert sum(frame.records.count for frame in frames) == 2
    assert len(news(broker)) == 1
    watch.close()
