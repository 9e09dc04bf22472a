"""An agent's connection to a real broker while nobody stores what it sends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest

from chimbuko.ad.agent import spoolshipper
from chimbuko.ad.agent.agenttelemetry import AgentTelemetry
from chimbuko.ad.agent.spoolshipper import (
    BUDGET_PERIOD_S,
    MOST_IN_FLIGHT_BYTES,
    AgentReports,
    AgentSpools,
    SpoolShipper,
    StreamBudgets,
)
from chimbuko.ad.handoff.exchange import Cell
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.shortage import ShortageNotices
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.modelsync import ModelSync
from chimbuko.ad.streams.deltalog import DeltaLog
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.buckets import BUCKETS, EDGES_US
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import PROFILE
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.sample_records import make_record

HEALTH = StreamHealth(0, 1, "node1", "reading", 0, 0, 0, 0, 0, 0, {})
FRAME_RECORDS = 500
FRAMES = 40

batches = msgspec.msgpack.Decoder(RecordBatch)


def test_what_is_not_stored_waits_in_the_spool_and_not_in_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spoolshipper, "ROUND_S", 0.0)
    monkeypatch.setattr(spoolshipper, "ANSWER_S", 0.0)
    spool = SpoolWriter(tmp_path / "spool", "agent", 1 << 30)
    for frame in range(FRAMES):
        records = [make_record(row=frame * FRAME_RECORDS + n) for n in range(FRAME_RECORDS)]
        spool.append(SpoolFrame(pack(records), [], [], HEALTH))
    waiting_bytes = sum(path.stat().st_size for path in (tmp_path / "spool").glob("*.spool"))
    assert waiting_bytes > 2 * MOST_IN_FLIGHT_BYTES
    with PrivateBroker(tmp_path / "broker.log") as private:
        broker = RunBroker.connect(private.url, "run")
        statistics = AgentStatistics("agent", 1, PROFILE)
        delivery = SpoolDelivery("agent", tmp_path / "spool")
        sender = SpoolShipper(
            broker,
            ModelSync(broker, statistics, [], AgentNotifier(), DeltaLog(tmp_path / "delta_log"), 1.0, False),
            AgentSpools([], delivery),
            AgentReports(
                AgentTelemetry("node1", os.getpid(), statistics, []),
                ShortageNotices(broker, tmp_path, "node1"),
            ),
            AgentNotifier(),
        )
        for _ in range(20):
            sender.exchange_once()
        assert delivery.in_flight_bytes < MOST_IN_FLIGHT_BYTES + 2 * waiting_bytes / FRAMES
        assert (
            cast(int, broker.client.memory_usage(broker.keys.records, samples=0)) < 1.5 * MOST_IN_FLIGHT_BYTES
        )
        # When it is stored again all of it comes.
        for _ in range(FRAMES):
            sequences = [
                broker.seal.decode(frame, batches).sequence
                for _, frame in broker.read(broker.keys.records, b"0", FRAMES)
            ]
            broker.client.hset(
                broker.keys.record_acks, "agent", max(sequences, default=delivery.acknowledged)
            )
            broker.client.delete(broker.keys.records)
            sender.exchange_once()
        assert sender.is_delivered
        assert delivery.acknowledged == FRAMES
        assert not broker.client.exists(broker.keys.wake), "the store gathers what comes meanwhile"
        sender.flush()
        sender.exchange_once()
        assert broker.client.xlen(broker.keys.wake) == 1, "at its end somebody waits"
        sender.exchange_once()
        assert broker.client.xlen(broker.keys.wake) == 1


def stream_of(folder: Path, rank: int) -> StreamHandle:
    name = StreamName("app", rank, folder / f"app-{rank}.bp")
    place = folder / f"0-{rank}"
    return StreamHandle(name, Transport.SST, 0, "node1", place, AnalysisConfig(), PROFILE)


def find(stream: StreamHandle, severities_us: list[float]) -> None:
    """Be the stream's process that has found these, too."""
    buckets = np.searchsorted(EDGES_US, severities_us, "right") - 1
    stream.box.offered += np.bincount(buckets, minlength=BUCKETS)


def test_streams_of_a_node_record_the_costliest_of_all_of_them(tmp_path: Path) -> None:
    cheap, costly = stream_of(tmp_path, 0), stream_of(tmp_path, 1)
    budgets = StreamBudgets([cheap, costly])
    now_s = time.monotonic()
    for _ in range(3):
        find(cheap, [2_000.0] * 900)
        find(costly, [300_000.0] * 8)
        now_s += BUDGET_PERIOD_S
        budgets.spread(now_s, is_behind=False)
        assert cheap.box[Cell.LEAST_US] == costly.box[Cell.LEAST_US] == 0
    budgets.per_s = 10.0
    for _ in range(12):
        find(cheap, [2_000.0] * 900)
        find(costly, [300_000.0] * 8)
        now_s += BUDGET_PERIOD_S
        budgets.spread(now_s, is_behind=False)
    assert 2_000 < costly.box[Cell.LEAST_US] == cheap.box[Cell.LEAST_US] <= 300_000
    # The rest of the budget is for what queues in spools.
    for _ in range(12):
        find(costly, [300_000.0] * 4 + [50_000.0] * 4)
        now_s += BUDGET_PERIOD_S
        budgets.spread(now_s, is_behind=True)
    assert 50_000 < costly.box[Cell.LEAST_US] <= 300_000
    budgets.per_s = None
    budgets.spread(now_s + BUDGET_PERIOD_S, is_behind=False)
    assert cheap.box[Cell.LEAST_US] == costly.box[Cell.LEAST_US] == 0
