"""Samples of nodes on their whole way: over a real broker, through the writer, into a store, and back."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
from sqlalchemy import Engine, func, select

from chimbuko.monitor.sampling.nodebatch import NodeBatch, packed
from chimbuko.provenance.query.nodelist import NodeSamples
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService, run_writer
from chimbuko.provenance.store.tables import NODE_SAMPLES
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import PAYLOAD
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.causes.nodes import batch, other, ticks

FOREVER = 1 << 62


def test_batches_are_stored_once_and_come_back_as_they_were(
    tmp_path: Path, writer: Writer, engine: Engine, provenance: Provenance
) -> None:
    first = batch(ticks(0, 0, 200), [other(0, 200, 1, 90)], [(0, 200_000, 5, 6, 1, 2, 3, 4, 7, 8)], cost_us=5)
    later = batch(ticks(1, 400, 600, state=b"T", ran_us=0))
    elsewhere = msgspec.structs.replace(first, node="another")
    total = batch(ticks(0, 0, 600), is_sum=True)
    with PrivateBroker(tmp_path / "broker.log") as private:
        broker = RunBroker.connect(private.url, provenance.run_id)
        # An agent that was started again may send the same twice.
        for one in (later, first, total, elsewhere, first):
            broker.client.xadd(broker.keys.node_batches, {PAYLOAD: broker.seal.encode(packed(one))})
        broker.client.xadd(broker.keys.node_batches, {PAYLOAD: b"damaged"})
        url = engine.url.render_as_string(hide_password=False)
        is_stopping = threading.Event()
        is_stopping.set()
        run_writer(WriterService(broker, Destination(url, provenance.run_id)), is_stopping.is_set)
        assert broker.client.xlen(broker.keys.node_batches) == 0
    samples = NodeSamples(provenance.reader)

    def between(begin_us: int, end_us: int, is_sum: bool = False) -> list[NodeBatch]:
        return list(samples.batches(begin_us, end_us, is_sum))

    def key(one: NodeBatch) -> tuple[str, int]:
        return one.node, one.sequence

    assert sorted(between(0, FOREVER), key=key) == sorted([first, elsewhere, later], key=key)
    assert between(later.begin_us, later.end_us) == [later]
    assert between(first.end_us, later.begin_us) == []
    assert between(0, FOREVER, is_sum=True) == [total]
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(NODE_SAMPLES)).scalar() == 4
