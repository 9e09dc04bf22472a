"""Takes records from the broker into the store, and acknowledges what is committed.

What cannot be stored now stays in the broker, unacknowledged, and is read again. Why it cannot is said once,
in the log and to the services.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
import redis
from sqlalchemy import Engine

from chimbuko.core.errors import ServiceError
from chimbuko.monitor.sampling.nodebatch import PackedBatch
from chimbuko.observe.namespaces.service.publishing import published
from chimbuko.provenance.service.forwarding import Forwarding, StoredCalls, has_ended
from chimbuko.provenance.service.runstore import Destination, StoreCopies
from chimbuko.provenance.service.steps import (
    Abandon,
    Acknowledge,
    Asked,
    Began,
    Came,
    Commit,
    Committed,
    Copied,
    Copy,
    Done,
    Event,
    Explain,
    Failed,
    FindingsRead,
    Gather,
    GiveUp,
    Instruction,
    LetGo,
    LookAround,
    Pause,
    Read,
    ReadFindings,
    Report,
    Stream,
)
from chimbuko.provenance.service.storing import Storing
from chimbuko.provenance.service.writercore import IDLE_S, CopySchedule, WriterCore
from chimbuko.provenance.store.engine import StoreBusy, StoreDamaged
from chimbuko.provenance.write.events import MetricFindingsStored, StoreEvent, Tick
from chimbuko.provenance.write.pace import StoreBudget
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.storyfile import write_story
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch, RunStatistics, WaitsRequest
from chimbuko.runtime.protocol.rankclaims import agents_of
from chimbuko.runtime.protocol.runbroker import Entries, PatientReader, RunBroker

Subscriber = Callable[[StoreEvent, Engine], None]
"""Function that takes each event of the store, once that has happened, and the store. It may raise what the
writer waits for: that broker or store cannot be used."""

MOST_REQUESTS = 1_000
"""Most requests to agents that the broker keeps."""

_batches = msgspec.msgpack.Decoder(RecordBatch)
_samples = msgspec.msgpack.Decoder(PackedBatch)
_statistics = msgspec.msgpack.Decoder(RunStatistics)
_stored_calls = msgspec.msgpack.Decoder(StoredCalls)


def report(broker: RunBroker, line: str) -> None:
    """Report a line in the log, and to the services, so that the user sees it, too."""
    log(line)
    with suppress(redis.RedisError):
        broker.notify_user(line)


def run_writer(service: WriterService, should_stop: Callable[[], bool]) -> None:
    """Write all that comes for one run, until asked to stop and nothing is left to write.

    Raises
    ------
    ChimbukoError
        The store is unusable, or store or broker could still not be used ``STOP_GRACE_S`` after being asked
        to stop. What is not stored is not acknowledged.
    """
    try:
        while not service.serve_once(should_stop()):
            pass
    finally:
        service.write_story()
    service.close()


class WriterService:
    """Writer that takes what comes at the broker into the store: the loop around ``WriterCore``.

    Parameters
    ----------
    broker
        Broker of the run, with the messages of agents and server.
    subscribers
        Receivers of what has been stored.
    """

    def __init__(
        self, broker: RunBroker, destination: Destination, subscribers: Sequence[Subscriber] = ()
    ) -> None:
        self._broker = broker
        self._destination = destination
        self._subscribers = subscribers
        self._storing = Storing(destination, self._tell, self._ask)
        self._store = self._storing.store
        self._copies = None if destination.copy is None else StoreCopies(destination.copy)
        schedule = None if self._copies is None else CopySchedule(time.monotonic())
        self._core = WriterCore(schedule, destination.info is not None, destination.writer > 0)
        self._forwarding = Forwarding(destination.writers)
        self._news: StoredCalls | None = None
        """News for the keeper about what was stored last."""
        self._reader = PatientReader(broker)
        self._budget = StoreBudget(time.monotonic())
        self._senders: dict[tuple[int, int], str] = {}
        """Agent that reads each rank, or its node where that is not known."""
        self._entries: dict[Stream, Entries] = {}
        """Entries that came last."""

    def open(self) -> None:
        """Open the store, where it is not open yet.

        Raises
        ------
        StoreError
            The store cannot be used.
        """
        self._store.open()

    def close(self) -> None:
        """Close the store; all is in it."""
        self._store.close()

    def write_story(self) -> None:
        """Write why it did what it did last beside the log of this process."""
        write_story(self._core.story)

    def serve_once(self, is_stopping: bool) -> bool:
        """Store and acknowledge what has come; return True where nothing had, and the writer is to stop.

        Raises
        ------
        ChimbukoError
            What it does not wait for any longer.
        """
        event: Event = Began(time.monotonic(), is_stopping, self._storing.explainer.quiet_s(IDLE_S))
        while (instruction := self._core.handle(event)) is not None:
            if isinstance(instruction, GiveUp):
                raise instruction.error
            began_s = time.monotonic()
            event = self._tried(instruction)
            if isinstance(instruction, (Read, Gather, Pause)):
                self._budget.waited(time.monotonic() - began_s)
        return self._core.is_drained

    def _tried(self, instruction: Instruction) -> Event:
        """Do what is to be done, and return what came of it."""
        try:
            return self._done(instruction)
        except redis.RedisError as error:
            no_broker = ServiceError(f"broker does not answer ({error}); trying again")
            return Failed(time.monotonic(), no_broker)
        except (StoreBusy, StoreDamaged) as error:
            return Failed(time.monotonic(), error)

    def _done(self, instruction: Instruction) -> Event:
        match instruction:
            case Read() | Gather():
                return self._read(instruction)
            case Commit(stream):
                return self._commit(stream)
            case Explain(is_urgent, severe):
                self._storing.explain(is_urgent, severe)
            case Acknowledge():
                self._acknowledge(instruction)
            case ReadFindings(known):
                return self._read_findings(known)
            case LookAround():
                return self._look_around()
            case Copy(asked):
                return self._copy(asked)
            case Abandon(error, puts_aside):
                self._storing.explainer.begin_anew()
                return LetGo(time.monotonic(), error, self._store.let_go(puts_aside))
            case Report(line):
                report(self._broker, line)
            case Pause(line, pause_s):
                if line:
                    report(self._broker, line)
                time.sleep(pause_s)
                self._reader.read_again()
        return Done(time.monotonic())

    def _key(self, stream: Stream) -> str:
        keys = self._broker.keys
        match stream:
            case Stream.RECORDS:
                return keys.stored if self._destination.is_keeper else keys.records
            case Stream.STATISTICS:
                return keys.statistics
            case Stream.SAMPLES:
                return keys.node_batches

    def _tell(self, event: StoreEvent) -> None:
        for subscriber in self._subscribers:
            subscriber(event, self._store.engine)

    def _read(self, instruction: Read | Gather) -> Came:
        """Read entries in addition to those that are to be gathered."""
        is_awaited = False
        if isinstance(instruction, Gather):
            self._reader.read({}, 1, instruction.wait_s)
            records = self._broker.read(self._key(Stream.RECORDS), instruction.after, instruction.count)
            found = [records]
        else:
            self._store.open()
            self._entries = {}
            after = {self._key(stream): entry for stream, entry in instruction.after.items()}
            found, is_awaited = self._reader.read(after, instruction.count, instruction.wait_s)
        came = dict(zip(self._core.streams, found, strict=False))
        for stream, entries in came.items():
            self._entries.setdefault(stream, []).extend(entries)
        size = sum(len(payload) for _, payload in came[Stream.RECORDS])
        ids = {stream: [entry for entry, _ in entries] for stream, entries in came.items()}
        return Came(time.monotonic(), ids, size, is_awaited)

    def _commit(self, stream: Stream) -> Committed:
        entries = self._entries[stream]
        match stream:
            case Stream.RECORDS if self._destination.is_keeper:
                return self._take_stored(entries)
            case Stream.RECORDS:
                return self._store_records(entries)
            case Stream.STATISTICS:
                self._store_statistics(entries)
            case Stream.SAMPLES:
                self._storing.samples(list(self._broker.seal.decoded(entries, _samples)))
        return Committed(time.monotonic(), stream)

    def _store_records(self, entries: Entries) -> Committed:
        batches = list(self._broker.seal.decoded(entries, _batches))
        began_s = time.monotonic()
        written = self._storing.records(batches)
        self._note_stored(batches, time.monotonic() - began_s)
        sequences = {batch.stream: batch.sequence for batch in batches}
        if self._destination.writer:
            self._news = self._forwarding.of(written, sequences, time.monotonic())
            later = self._news.sequences if self._news else {}
            known = {stream: number for stream, number in sequences.items() if stream not in later}
            return Committed(time.monotonic(), Stream.RECORDS, known)
        ended = any(map(has_ended, written.batches))
        return Committed(time.monotonic(), Stream.RECORDS, sequences, ended, list(written.severe))

    def _note_stored(self, batches: Sequence[RecordBatch], took_s: float) -> None:
        nodes = {(batch.health.program, batch.health.rank): batch.health.node for batch in batches}
        if new := nodes.keys() - self._senders.keys():
            agents = agents_of(self._broker, new)
            self._senders |= {rank: agents.get(rank, nodes[rank]) for rank in new}
        calls = Counter[str]()
        for batch in batches:
            heads = batch.records.head_rows()
            # A second revision is no second call.
            sender = self._senders[batch.health.program, batch.health.rank]
            calls[sender] += int(((heads.is_anomaly != 0) & (heads.revision == 1)).sum())
        records = sum(batch.records.count for batch in batches)
        self._budget.stored(calls, records, len(batches), took_s)

    def _tell_budget(self) -> None:
        """Let agents know, once in a period, what the store takes of each."""
        now_s = time.monotonic()
        if self._destination.is_keeper or not self._budget.is_due(now_s):
            return
        client, keys, writer = self._broker.client, self._broker.keys, str(self._destination.writer)
        per_s = self._budget.per_agent(now_s, client.xlen(keys.records))
        if per_s is None:
            client.hdel(keys.budgets, writer)
        else:
            client.hset(keys.budgets, writer, str(per_s))

    def _take_stored(self, entries: Entries) -> Committed:
        """Take what other writers have stored, to explain it."""
        sequences, severe = dict[str, int](), list[SevereCall]()
        for stored in self._broker.seal.decoded(entries, _stored_calls):
            self._storing.tell_of(stored.batches)
            sequences |= stored.sequences
            severe += stored.severe
        return Committed(time.monotonic(), Stream.RECORDS, sequences, bool(sequences), severe)

    def _store_statistics(self, entries: Entries) -> None:
        """Store the server's statistics over all agents; it sends no more before this message is removed."""
        for statistics in self._broker.seal.decoded(entries, _statistics):
            self._storing.statistics(statistics)

    def _ask(self, requests: Sequence[WaitsRequest]) -> None:
        """Ask agents about delays."""
        with self._broker.client.pipeline(transaction=False) as pipeline:
            for request in requests:
                sealed = self._broker.seal.encode(request)
                pipeline.xadd(self._broker.keys.waits_requests, {PAYLOAD: sealed}, maxlen=MOST_REQUESTS)
            pipeline.execute()

    def _acknowledge(self, instruction: Acknowledge) -> None:
        # What was forwarded is not read again, and what was not is.
        with self._broker.client.pipeline(transaction=self._news is not None) as pipeline:
            if self._news is not None:
                pipeline.xadd(self._broker.keys.stored, {PAYLOAD: self._broker.seal.encode(self._news)})
            if instruction.sequences:
                pipeline.hset(
                    self._broker.keys.record_acks, mapping=cast(dict[Any, Any], instruction.sequences)
                )
            pipeline.xdel(self._key(instruction.stream), *instruction.entries)
            pipeline.execute()

    def _read_findings(self, known: bytes) -> FindingsRead:
        """Store what was found in published quantities."""
        try:
            sealed, found = published(self._broker, known)
        except msgspec.MsgspecError as error:
            log(f"findings in published quantities are left out: {error}")
            return FindingsRead(time.monotonic(), known)
        if found and (new := self._store.writer.write_metric_findings(found)):
            self._tell(MetricFindingsStored(time.monotonic(), new))
        return FindingsRead(time.monotonic(), sealed)

    def _look_around(self) -> Asked:
        self._tell_budget()
        self._tell(Tick(time.monotonic()))
        request = None
        if self._copies is not None:
            request = cast("bytes | None", self._broker.client.get(self._broker.keys.copy_wanted))
        return Asked(time.monotonic(), request, self._destination.is_urgent())

    def _copy(self, asked: Asked) -> Copied:
        assert self._copies is not None, "there is no place for a copy"
        is_made = self._copies.make(self._store.engine)
        if is_made and asked.request is not None:
            self._broker.client.set(self._broker.keys.copy_made, asked.request)
        return Copied(time.monotonic(), asked, is_made)
