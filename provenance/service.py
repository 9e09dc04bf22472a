"""The store's one writer, a process: takes records from the broker and acknowledges what is committed.

What cannot be stored now stays in the broker, unacknowledged, and is read again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

import msgspec
import redis
from sqlalchemy import Engine

from chimbuko.broker import broker_from_environment, read_stream
from chimbuko.errors import ChimbukoError, ServiceError
from chimbuko.messages import (
    FRAMES,
    PROGRAMS,
    RECORD_ACKS,
    RECORDS,
    Frame,
    FunctionModel,
    FunctionStatistics,
    RecordBatch,
)
from chimbuko.processes import StopSignal, log, say_ready
from chimbuko.provenance.packing import warm_kernels
from chimbuko.provenance.store import StoreBusy, StoreRefused, close, open_for_writing
from chimbuko.provenance.writer import Writer
from chimbuko.records import StreamHealth

STORE_VARIABLE = "CHIMBUKO_STORE"
"""Environment variable with the store's URL: on a command line other users could read its password."""

READ_COUNT = 256
"""Batches per transaction: 1,000 records in one are stored ten times as fast as one each."""
READ_BLOCK_MS = 100
STATE_PERIOD_S = 2.0
"""How often health and statistics of functions are stored: only their latest values count."""
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
STOP_GRACE_S = 10.0
"""How long to go on trying, once asked to stop, while broker or store cannot be used."""

Message = TypeVar("Message")

_batches = msgspec.msgpack.Decoder(RecordBatch)
_frames = msgspec.msgpack.Decoder(Frame)


def run_writer(broker: redis.Redis, engine: Engine, run_id: str, should_stop: Callable[[], bool]) -> None:
    """Write all that comes for one run, until asked to stop and nothing is left.

    Raises
    ------
    ChimbukoError
        The store is unusable; or it, or the broker, could still not be used ``STOP_GRACE_S`` after
        being asked to stop. What is not stored is not acknowledged.
    """
    service = WriterService(broker, Writer(engine, run_id))
    troubles = _Troubles()
    while True:
        is_stopping = should_stop()
        try:
            is_idle = service.serve_once(is_stopping)
        except redis.RedisError as error:
            service.read_again()
            troubles.wait(ServiceError(f"broker does not answer ({error}); trying again"), is_stopping)
        except StoreBusy as error:
            troubles.wait(error, is_stopping)
        else:
            troubles.are_over()
            if is_stopping and is_idle:
                return


class WriterService:
    """What was read from the broker, and where it goes.

    Parameters
    ----------
    broker
        Where agents and server leave their messages.
    writer
        The store.
    """

    def __init__(self, broker: redis.Redis, writer: Writer) -> None:
        self._broker = broker
        self._writer = writer
        self._records_to = b"0"
        self._frames_to = b"0"
        self._state_at = time.monotonic()

    def serve_once(self, is_stopping: bool) -> bool:
        """Store and acknowledge what has come; True if nothing had."""
        entries = read_stream(self._broker, RECORDS, self._records_to, READ_COUNT, READ_BLOCK_MS)
        if entries:
            self._store_records(entries)
        if is_stopping or time.monotonic() - self._state_at >= STATE_PERIOD_S:
            self._store_state()
        return not entries

    def read_again(self) -> None:
        """Read from the beginning next time: a broker that was restarted may number anew."""
        self._records_to = self._frames_to = b"0"

    def _store_records(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        batches = list(_decoded(_batches, RECORDS, entries))
        try:
            self._writer.write(batches)
        except StoreRefused:
            self._write_one_by_one(batches)
        with self._broker.pipeline(transaction=False) as pipeline:
            if batches:
                pipeline.hset(RECORD_ACKS, mapping={batch.stream: batch.sequence for batch in batches})
            pipeline.xdel(RECORDS, *(entry for entry, _ in entries))
            pipeline.execute()
        self._records_to = entries[-1][0]

    def _write_one_by_one(self, batches: Sequence[RecordBatch]) -> None:
        """One batch that can never be stored must not keep all others out for ever."""
        for batch in batches:
            try:
                self._writer.write([batch])
            except StoreRefused as error:
                log(f"batch {batch.sequence} of stream {batch.stream} is left out: {error}")

    def _store_state(self) -> None:
        """Store the latest health and statistics of functions that the frames give, and all models."""
        health: dict[tuple[int, int], StreamHealth] = {}
        functions: dict[tuple[int, str], FunctionStatistics] = {}
        models: list[FunctionModel] = []
        read_to = self._frames_to
        while entries := read_stream(self._broker, FRAMES, read_to, READ_COUNT, block_ms=1):
            read_to = entries[-1][0]
            for frame in _decoded(_frames, FRAMES, entries):
                health.update({(stream.program, stream.rank): stream for stream in frame.health})
                functions.update(
                    {(function.program, function.name): function for function in frame.functions}
                )
                models += frame.models
        for name, number in cast(dict[bytes, bytes], self._broker.hgetall(PROGRAMS)).items():
            self._writer.write_program(int(number), name.decode())
        self._writer.write_health(list(health.values()))
        self._writer.write_function_statistics(list(functions.values()))
        self._writer.write_models(models)
        self._frames_to = read_to
        self._state_at = time.monotonic()


class _Troubles:
    """Says once that something does not work, and waits longer each time."""

    def __init__(self) -> None:
        self._retry_s = FIRST_RETRY_S
        self._said: type[ChimbukoError] | None = None
        self._stopping_since: float | None = None

    def wait(self, error: ChimbukoError, is_stopping: bool) -> None:
        """Wait before the next try; raise ``error`` where there is no more time for one."""
        if is_stopping:
            self._stopping_since = self._stopping_since or time.monotonic()
            if time.monotonic() - self._stopping_since > STOP_GRACE_S:
                raise error
        if self._said is not type(error):
            log(f"{error}; records wait until it works again")
            self._said = type(error)
        time.sleep(self._retry_s)
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)

    def are_over(self) -> None:
        """All works."""
        if self._said is not None:
            log("records are stored again")
        self._said = None
        self._retry_s = FIRST_RETRY_S


def _decoded(
    decoder: msgspec.msgpack.Decoder[Message], stream: str, entries: Iterable[tuple[bytes, bytes]]
) -> Iterator[Message]:
    for entry, payload in entries:
        try:
            yield decoder.decode(payload)
        except msgspec.MsgspecError as error:
            log(f"entry {entry.decode()} of {stream} is left out, it cannot be understood ({error})")


def main() -> None:
    """Write until SIGTERM."""
    parser = argparse.ArgumentParser(prog="chimbuko.provenance", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument(
        "--store", default=os.environ.get(STORE_VARIABLE), help=f"URL; default ${STORE_VARIABLE}"
    )
    options = parser.parse_args()
    should_stop = StopSignal()
    try:
        if not options.store:
            raise ServiceError(f"{STORE_VARIABLE} is not set: this process is started by 'chimbuko run'")
        broker = broker_from_environment()
        engine = open_for_writing(options.store)
        say_ready(service="provenance")
        # Records wait in the broker, but nobody waits for this: it takes a third of a second.
        warm_kernels()
        run_writer(broker, engine, options.run_id, should_stop)
        close(engine)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
