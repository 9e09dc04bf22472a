"""The store's writer at work in a thread, and what it is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.service import WriterService, run_writer
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch
from chimbuko.runtime.protocol.runbroker import RunBroker
from tests.patience import PATIENCE_S


def send(broker: RunBroker, *batches: RecordBatch) -> None:
    """Send batches as agents do."""
    for batch in batches:
        broker.client.xadd(broker.keys.records, {PAYLOAD: broker.seal.encode(batch)})


def acknowledged(broker: RunBroker, stream: str = "0:1") -> int:
    """The last batch of a stream that the writer says to have stored."""
    return int(cast(bytes, broker.client.hget(broker.keys.record_acks, stream)) or 0)


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.005)


@contextmanager
def writing(broker: RunBroker, destination: Destination) -> Iterator[None]:
    """The writer at work; asked to stop, and waited for, at the end."""
    stop = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        try:
            run_writer(WriterService(broker, destination), stop.is_set)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
