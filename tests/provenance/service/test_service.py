from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import msgspec
import pytest
from sqlalchemy import Engine

from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service import writercore
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.write import pace
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.signals import END
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import (
    PAYLOAD,
    FunctionModel,
    FunctionStatistics,
    RecordBatch,
    RunStatistics,
)
from chimbuko.runtime.protocol.rankclaims import claim_ranks
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from tests.provenance.writing import acknowledged, send, until, writing
from tests.sample_records import RUN_ID

Record = Callable[..., CallRecord]
Batch = Callable[..., RecordBatch]
ALL = CallFilter(label=None)
BATCHES = 1500
"""Of five records: twice as many as fit on the small disk."""


def running(broker: RunBroker, engine: Engine, run_id: str) -> AbstractContextManager[None]:
    """The writer at work on a store that is open."""
    return writing(broker, Destination(engine.url.render_as_string(hide_password=False), run_id))


def numbered(batch: Batch, record: Record, sequences: range, records: int = 5) -> list[RecordBatch]:
    return [batch(n, records=[record(row=records * n + i) for i in range(records)]) for n in sequences]


def test_all_that_was_sent_is_stored_acknowledged_and_removed(
    broker: RunBroker, writer: Writer, engine: Engine, provenance: Provenance, record: Record, batch: Batch
) -> None:
    send(broker, *numbered(batch, record, range(1, 4)), batch(7, stream="0:2"))
    with running(broker, engine, provenance.run_id):
        pass
    assert provenance.calls.count(ALL) == 15
    assert (acknowledged(broker), acknowledged(broker, "0:2")) == (3, 7)
    assert broker.client.xlen(broker.keys.records) == 0


def test_a_writer_of_a_slow_store_tells_agents_how_many_calls_it_takes(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told() -> bytes | None:
        return cast("bytes | None", broker.client.hget(broker.keys.budgets, "0"))

    write = Writer.write

    def slow(self: Writer, batches: Sequence[RecordBatch]) -> None:
        write(self, batches)
        time.sleep(0.01 * sum(one.records.count for one in batches))

    monkeypatch.setattr(Writer, "write", slow)
    monkeypatch.setattr(pace, "MEMORY_S", 0.5)
    with running(broker, engine, provenance.run_id):
        for n in range(1, 150):
            send(broker, batch(n, records=[record(row=5 * n + at, revision=1) for at in range(5)]))
        until(lambda: told() is not None)
        # What queues is for the time that agents leave free.
        assert 0.0 < float(told() or b"") <= 100.0
        until(lambda: acknowledged(broker) == 149)
        until(lambda: told() is None)
    assert provenance.calls.count(ALL) == 5 * 149


def test_agents_of_one_node_have_a_budget_each(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came = Counter[str]()
    monkeypatch.setattr(pace.StoreBudget, "stored", lambda _, calls, *rest: came.update(calls))
    broker.client.hset(broker.keys.programs, "heat", 0)
    for rank in (1, 2):
        claim_ranks(broker, [("heat", rank)], f"agent-{rank}")
    for rank in (1, 2, 3):
        records = [record(rank=rank, row=n, revision=1) for n in range(5)]
        send(broker, batch(1, stream=f"0:{rank}", records=records))
    with running(broker, engine, provenance.run_id):
        pass
    assert came == {"agent-1": 5, "agent-2": 5, record().node: 5}


def test_the_latest_statistics_are_stored_and_every_model(
    broker: RunBroker, writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    function = FunctionStatistics(0, "main", 1, 0, 0.0, 1.0, 0.0, 1.0, 1.0, 2.0, 2.0)
    health = StreamHealth(0, 1, "node7", "reading", 1, 100, 4800, 48, 2, 0, {})
    for tick in range(1, 4):
        statistics = RunStatistics(
            {0: "heat"},
            [msgspec.structs.replace(health, steps=tick)],
            [msgspec.structs.replace(function, calls=tick)],
            models=[FunctionModel(tick, 0, "main", bytes(tick))],
        )
        broker.client.xadd(broker.keys.statistics, {PAYLOAD: broker.seal.encode(statistics)})
    with running(broker, engine, provenance.run_id):
        pass
    assert [found.calls for found in provenance.function_statistics()] == [3]
    assert [found.steps for found in provenance.health()] == [3]
    models = [provenance.models.at(0, "main", version) for version in (1, 2, 3)]
    assert models == [FunctionModel(version, 0, "main", bytes(version)) for version in (1, 2, 3)]
    assert provenance.programs() == {0: "heat"}
    assert broker.client.xlen(broker.keys.statistics) == 0, "the server tells more only when this is removed"


def start_process(private_broker: PrivateBroker, store_url: str, run_id: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, BROKER_VARIABLE: private_broker.url, STORE_VARIABLE: store_url}
    process = subprocess.Popen(
        [sys.executable, "-m", "chimbuko.provenance.service", "--run-id", run_id],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert b"provenance" in process.stdout.readline()
    return process


def test_a_writer_killed_in_mid_stream_loses_and_doubles_nothing(
    broker: RunBroker,
    private_broker: PrivateBroker,
    store_url: str,
    writer: Writer,
    provenance: Provenance,
    record: Record,
    batch: Batch,
) -> None:
    batches = numbered(batch, record, range(1, 2001), records=3)
    send(broker, *batches)
    with start_process(private_broker, store_url, provenance.run_id) as killed:
        until(lambda: acknowledged(broker) > 0)
        killed.kill()
    assert 0 < acknowledged(broker) < 2000
    # As an agent that does not know what arrived: from what was acknowledged, and a little before.
    send(broker, *batches[max(acknowledged(broker) - 100, 0) :])
    with start_process(private_broker, store_url, provenance.run_id) as restarted:
        restarted.send_signal(END)
        assert restarted.wait() == 0
    assert provenance.calls.count(ALL) == 6000
    assert acknowledged(broker) == 2000
    assert broker.client.xlen(broker.keys.records) == 0


def test_a_broker_that_was_restarted_is_served_again(
    tmp_path: Path, writer: Writer, engine: Engine, provenance: Provenance, record: Record, batch: Batch
) -> None:
    with PrivateBroker(tmp_path / "broker.log") as private:
        broker = RunBroker.connect(private.url, RUN_ID)
        first, second = numbered(batch, record, range(1, 3))
        with running(broker, engine, provenance.run_id):
            send(broker, first)
            until(lambda: acknowledged(broker) == 1)
            private.stop()
            private.start()
            send(broker, second)
            until(lambda: acknowledged(broker) == 2)
        broker.client.close()
    assert provenance.calls.count(ALL) == 10


def test_nothing_is_acknowledged_while_the_store_is_locked(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    engine.dispose()
    said = ""

    def is_said(text: str) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return text in said

    holder = sqlite3.connect(tmp_path / "provenance.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    send(broker, *numbered(batch, record, range(1, 4)))
    with running(broker, engine, provenance.run_id):
        until(lambda: is_said("held by another program"))
        assert (acknowledged(broker), broker.client.xlen(broker.keys.records)) == (0, 3)
        holder.execute("ROLLBACK")
        until(lambda: acknowledged(broker) == 3)
        until(lambda: is_said("records are stored again"))
    holder.close()
    assert said.count("chimbuko: ") == 2
    assert provenance.calls.count(ALL) == 15


def test_a_store_that_stays_locked_ends_the_writer_with_its_reason(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(writercore, "STOP_GRACE_S", 0.05)
    engine.dispose()
    holder = sqlite3.connect(tmp_path / "provenance.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    send(broker, batch(1))
    with (
        pytest.raises(StoreError, match="held by another program"),
        running(broker, engine, provenance.run_id),
    ):
        pass
    holder.close()
    assert broker.client.xlen(broker.keys.records) == 1


def test_a_full_disk_delays_records_and_loses_none(
    small_disk: Path,
    broker: RunBroker,
    record: Record,
    batch: Batch,
    run_info: Callable[..., RunInfo],
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:///{small_disk / 'provenance.sqlite'}"
    engine = open_for_writing(url)
    Writer(engine, RUN_ID).write_run(run_info(RUN_ID))
    said = ""

    def is_said(text: str) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return text in said

    send(broker, *numbered(batch, record, range(1, BATCHES + 1)))
    with running(broker, engine, RUN_ID):
        until(lambda: is_said("free some space"))
        stored = acknowledged(broker)
        assert stored < BATCHES
        assert broker.client.xlen(broker.keys.records) == BATCHES - stored
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        until(lambda: acknowledged(broker) == BATCHES)
    reading = open_for_reading(url)
    assert Provenance(reading, RUN_ID).calls.count(ALL) == 5 * BATCHES
    reading.dispose()
    engine.dispose()


def test_what_can_never_be_stored_does_not_keep_the_rest_out(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    good, other = numbered(batch, record, range(1, 3))
    send(broker, good, batch(2, records=[record(row=99, entry_us=1 << 63, exit_us=1 << 63)]))
    broker.client.xadd(broker.keys.records, {PAYLOAD: b"\xc1 no message"})
    send(broker, msgspec.structs.replace(other, sequence=3))
    with running(broker, engine, provenance.run_id):
        pass
    said = capfd.readouterr().err
    assert "batch 2 of stream 0:1 is left out" in said
    assert said.count("is left out") == 2
    assert provenance.calls.count(ALL) == 10
    assert (acknowledged(broker), broker.client.xlen(broker.keys.records)) == (3, 0)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({BROKER_VARIABLE: "redis://:hush@127.0.0.1:1"}, "broker at 127.0.0.1:1 cannot be used"),
        ({STORE_VARIABLE: "sqlite:////no/such/folder/p.sqlite"}, "its folder does not exist"),
        ({STORE_VARIABLE: ""}, "CHIMBUKO_STORE is not set"),
    ],
)
def test_a_wrong_start_ends_with_one_line(
    private_broker: PrivateBroker, store_url: str, environment: dict[str, str], said: str
) -> None:
    usual = {BROKER_VARIABLE: private_broker.url, STORE_VARIABLE: store_url}
    done = subprocess.run(
        [sys.executable, "-m", "chimbuko.provenance.service", "--run-id", "r"],
        env={**os.environ, **usual, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (4, 5)
    assert said in done.stderr
    assert "hush" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_batches_are_gathered_until_somebody_waits(
    broker: RunBroker,
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    record: Record,
    batch: Batch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whatever waits for the time to be over fails the test.
    monkeypatch.setattr(writercore, "GATHER_S", 3600.0)
    url = engine.url.render_as_string(hide_password=False)
    writing = WriterService(broker, Destination(url, provenance.run_id))
    commits: list[int] = []
    write = Writer.write

    def counted(writer: Writer, batches: Sequence[RecordBatch]) -> None:
        write(writer, batches)
        commits.append(acknowledged(broker))

    monkeypatch.setattr(Writer, "write", counted)
    first, second, third, fourth = numbered(batch, record, range(1, 5))

    send(broker, first)
    assert not writing.serve_once(is_stopping=False)
    assert (acknowledged(broker), len(commits)) == (1, 1), "the first one has nothing to wait for"

    send(broker, second)
    gathering = threading.Thread(target=writing.serve_once, args=(False,))
    gathering.start()
    send(broker, third)
    broker.client.xadd(broker.keys.wake, {PAYLOAD: b""})
    gathering.join()
    assert (acknowledged(broker), len(commits)) == (3, 2)

    send(broker, fourth)
    monkeypatch.setattr(writercore, "READ_BYTES", 1)
    assert not writing.serve_once(is_stopping=False)
    assert (acknowledged(broker), len(commits)) == (4, 3), "many bytes are not waited with"
    assert provenance.calls.count(ALL) == 20
    writing.close()
