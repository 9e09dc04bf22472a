"""Several writers of one store and their keeper, as processes that die: all is stored once, and explained."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import msgspec
import pytest
from sqlalchemy import Engine

from chimbuko.core.calls.record import CallRecord, StreamHealth
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.forwarding import MOST_TOLD_PER_S, SAVED_S, Forwarding
from chimbuko.provenance.service.storing import Written
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.severecalls import severe_calls
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.signals import END
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import RecordBatch
from chimbuko.runtime.protocol.partition import writer_of_agent
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from tests.provenance.write.test_rollups import OF_CALLS, OF_STEPS, changed, kept, made_anew
from tests.provenance.writing import acknowledged, send, until
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

WRITERS = 2
RANKS = 4
BATCHES = 300
"""Of each rank: more than a writer takes at once."""
RECORDS = 3


@contextmanager
def process(private_broker: PrivateBroker, store_url: str, writer: int) -> Iterator[subprocess.Popen[bytes]]:
    """One of several writers, from 1 on, or their keeper."""
    words = ["--run-id", RUN_ID, "--writers", str(WRITERS), "--writer", str(writer)]
    with subprocess.Popen(
        [sys.executable, "-m", "chimbuko.provenance.service", *words],
        stdout=subprocess.PIPE,
        env={**os.environ, BROKER_VARIABLE: private_broker.url, STORE_VARIABLE: store_url},
    ) as started:
        assert started.stdout is not None
        try:
            assert b"provenance" in started.stdout.readline()
            yield started
        finally:
            started.kill()


def end(started: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and wait."""
    started.send_signal(END)
    assert started.wait() == 0


def found_by(rank: int, random: Random) -> list[RecordBatch]:
    """What a rank's stream sends, in which many calls come again; in the end it has ended."""
    batches = []
    calls: list[CallRecord] = []
    for number in range(1, BATCHES + 1):
        calls = [changed(random, call) for call in calls[-1:]] + [
            make_record(
                RECORDS * number + row,
                rank=rank,
                node=f"node{rank}",
                function=f"function {random.randrange(30)}",
                entry_us=1_000_000 + 500 * number,
                exit_us=1_009_000 + 500 * number,
                step=number // 7,
            )
            for row in range(RECORDS)
        ]
        state = "ended" if number == BATCHES else "reading"
        health = StreamHealth(0, rank, f"node{rank}", state, number, 100, 4800, 48, 2, 0, {})
        batches.append(make_batch(number, f"0:{rank}", calls, health=health))
    return batches


def test_writers_that_are_killed_lose_and_double_nothing(
    broker: RunBroker, private_broker: PrivateBroker, any_store_url: str
) -> None:
    engine = open_for_writing(any_store_url)
    Writer(engine, RUN_ID).write_run(make_run())
    batches = {rank: found_by(rank, Random(rank)) for rank in range(RANKS)}
    brokers = {rank: RunBroker(broker.client, RUN_ID, 1 + rank % WRITERS) for rank in range(RANKS)}
    for rank, of_rank in batches.items():
        send(brokers[rank], *of_rank)
    keys = [RunBroker(broker.client, RUN_ID, number).keys for number in range(WRITERS + 1)]
    with process(private_broker, any_store_url, 2) as second:
        with process(private_broker, any_store_url, 1) as first:
            until(lambda: acknowledged(broker, "0:0") > 0)
            first.kill()
        assert 0 < acknowledged(broker, "0:0") < BATCHES
        # As an agent that does not know what arrived.
        send(brokers[0], *batches[0][max(acknowledged(broker, "0:0") - 100, 0) :])
        with process(private_broker, any_store_url, 1) as first:
            end(first)
        end(second)
    assert [broker.client.xlen(one.records) for one in keys] == [0] * len(keys)
    assert acknowledged(broker, "0:0") < BATCHES, "its agent waits for the keeper, which may ask something"
    with process(private_broker, any_store_url, 0) as keeper:
        end(keeper)
    assert [acknowledged(broker, f"0:{rank}") for rank in range(RANKS)] == [BATCHES] * RANKS
    assert broker.client.xlen(broker.keys.stored) == 0
    assert_stored_once(engine)
    engine.dispose()


def assert_stored_once(engine: Engine) -> None:
    """All calls are there, sums are those of what is there, and incidents have calls of all ranks."""
    stored = Provenance(engine, RUN_ID)
    assert stored.calls.count(CallFilter(label=None)) == RANKS * BATCHES * RECORDS
    with engine.connect() as connection:
        names = connection.exec_driver_sql("SELECT count(*), count(DISTINCT name) FROM functions").one()
    assert names[0] == names[1]
    for tables in (OF_CALLS, OF_STEPS):
        assert kept(engine, tables) == made_anew(engine, tables)
    incidents = list(Incidents(stored.reader).each())
    assert {one.incident.rank for one in incidents} | {
        waited.rank for one in incidents for waited in one.incident.waited
    } >= set(range(RANKS))


def test_agents_are_shared_among_writers() -> None:
    assert writer_of_agent("agent-node1", 1) == 0
    found = {writer_of_agent(f"agent-node{number}", 4) for number in range(40)}
    assert found == {1, 2, 3, 4}


def test_the_keeper_hears_of_calls_of_new_ranks_and_of_ends(
    batch: Callable[..., RecordBatch], record: Callable[..., CallRecord]
) -> None:
    forwarding = Forwarding(2)
    empty = batch(1, stream="0:1")
    told = forwarding.of(Written([empty]), {"0:1": 1}, 1.0)
    assert told is not None
    assert (len(told.batches), told.sequences) == (1, {}), "the rank is new"
    assert forwarding.of(Written([empty]), {"0:1": 2}, 1.0) is None
    calls = batch(3, records=[record()])
    severe = list(severe_calls([calls], 1_000.0).values())
    told = forwarding.of(Written([calls], severe), {"0:1": 3}, 1.0)
    assert told is not None
    assert (told.batches[0].records.count, told.batches[0].steps, told.severe) == (1, [], severe)
    ended = msgspec.structs.replace(empty, health=msgspec.structs.replace(empty.health, state="ended"))
    told = forwarding.of(Written([ended]), {"0:1": 4, "0:2": 7}, 1.0)
    assert told is not None
    assert told.sequences == {"0:1": 4}


def test_the_keeper_hears_of_the_most_severe_calls_where_there_are_too_many() -> None:
    forwarding = Forwarding(2)
    batches = [
        make_batch(number, records=[make_record(number, severity_us=float(number * 7919 % 100_003))])
        for number in range(6_000)
    ]
    severities = sorted(number * 7919 % 100_003 for number in range(6_000))
    told = forwarding.of(Written(batches), {}, 100.0)
    assert told is not None
    heard = [int(one.records.head_rows()["severity_us"][0]) for one in told.batches]
    assert sorted(heard) == severities[-round(SAVED_S * MOST_TOLD_PER_S / 2) :]
    assert heard == [one for one in (n * 7919 % 100_003 for n in range(6_000)) if one in set(heard)]
    told = forwarding.of(Written(batches), {}, 101.0)
    assert told is not None
    assert len(told.batches) == MOST_TOLD_PER_S / 2


@pytest.mark.parametrize("writers", [1, 2])
def test_two_writers_number_names_alike(any_store_url: str, writers: int) -> None:
    engines = [open_for_writing(any_store_url) for _ in range(writers)]
    Writer(engines[0], RUN_ID).write_run(make_run())
    several = [Writer(engine, RUN_ID, number) for number, engine in enumerate(engines, 1)]
    for turn in range(4):
        name = f"function {turn // 2}"
        calls = [make_record(turn, rank=turn % writers, function=name)]
        several[turn % writers].write([make_batch(turn, f"0:{turn % writers}", calls)])
    found = Provenance(engines[0], RUN_ID).calls.records(CallFilter(label=None))
    assert sorted(call.function for call in found) == ["function 0"] * 2 + ["function 1"] * 2
    for engine in engines:
        engine.dispose()
