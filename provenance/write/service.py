"""Takes records from the broker into the store, and acknowledges what is committed.

What cannot be stored now stays in the broker, unacknowledged, and is read again. Why it cannot is said once,
in the log and to the services.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import msgspec
import redis
from sqlalchemy import Engine

from chimbuko.core.calls.record import READING
from chimbuko.core.errors import ChimbukoError, ServiceError, StoreError
from chimbuko.monitor.samples.nodebatch import PackedBatch, unpacked
from chimbuko.observe.namespaces.service.publishing import published
from chimbuko.provenance.alerts.alert import AlertedRun
from chimbuko.provenance.alerts.alerting import Alerting
from chimbuko.provenance.alerts.events import (
    Explained,
    HealthStored,
    IncidentsChanged,
    MetricFindingsStored,
    RecordsCame,
    RecurrencesStored,
    Resumed,
    Tick,
)
from chimbuko.provenance.alerts.sink import Sink
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.recurring import recurring
from chimbuko.provenance.incidents.slowmodes import ModeCauses
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import (
    StoreBusy,
    StoreDamaged,
    StoreRefused,
    close,
    open_for_writing,
    put_aside,
)
from chimbuko.provenance.write.liveincidents import LiveIncidents
from chimbuko.provenance.write.storecopies import StoreCopies
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import PAYLOAD, RecordBatch, RunStatistics, WaitsRequest
from chimbuko.runtime.protocol.runbroker import Entries, PatientReader, RunBroker
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.runtime.runs.directory import RunInfo

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
STOP_GRACE_S = 10.0
"""Time to go on trying, once asked to stop, while broker or store cannot be used."""


class WriterStatus:
    """Status of the writer: it reports once that something does not work, and waits longer each time."""

    def __init__(self, broker: RunBroker) -> None:
        self._broker = broker
        self._retry_s = FIRST_RETRY_S
        self._said: type[ChimbukoError] | None = None
        self._since_s = 0.0
        self._stopping_since: float | None = None

    def wait(self, error: ChimbukoError, is_stopping: bool) -> None:
        """Wait before the next try; raise ``error`` where there is no more time for one."""
        if is_stopping:
            self._stopping_since = self._stopping_since or time.monotonic()
            if time.monotonic() - self._stopping_since > STOP_GRACE_S:
                raise error
        if self._said is None:
            self._since_s = time.monotonic()
        if self._said is not type(error):
            self.report(f"{error}; records wait until it works again")
            self._said = type(error)
        time.sleep(self._retry_s)
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)

    def are_over(self) -> None:
        """Note that all works again."""
        if self._said is not None:
            self.report(f"records are stored again, after {time.monotonic() - self._since_s:.1f} s")
        self._said = None
        self._retry_s = FIRST_RETRY_S

    def report(self, line: str) -> None:
        """Report a line in the log, and to the services, so that the user sees it, too."""
        log(line)
        with suppress(redis.RedisError):
            self._broker.notify_user(line)


READ_COUNT = 256
"""Most batches per transaction: 1,000 records in one are stored ten times as fast as one each."""
READ_BYTES = 1 << 20
"""Size of batches from which on no more are gathered: an agent stops at 4 MB that are not stored."""
IDLE_S = 1.0
"""Time between two looks at signals while nothing comes."""
GATHER_S = 0.5
"""Time from one transaction to the next: each takes 1 ms however little is in it, and a batch without
findings 0.03 ms."""
MOST_REQUESTS = 1_000
"""Most requests to agents that the broker keeps."""
MOST_PUT_ASIDE = 3
"""Most damaged stores that one writer puts aside: a disk that damages more will damage the next one, too."""

_batches = msgspec.msgpack.Decoder(RecordBatch)
_samples = msgspec.msgpack.Decoder(PackedBatch)
_statistics = msgspec.msgpack.Decoder(RunStatistics)


@dataclass(frozen=True)
class Destination:
    """Destination of the records of a run."""

    url: str
    """URL of the store."""
    run_id: str
    info: RunInfo | None = None
    """Description of the run, where the store is its own: a damaged one is put aside, and a new one begun
    with this."""
    alert_us: float | None = None
    """Severity from which on a call raises an alert; None for no alerts."""
    sinks: Sequence[Sink] = ()
    """Receivers of alerts."""
    copy: Path | None = None
    """Place of a copy of the store on storage that other nodes share, made now and then."""
    is_urgent: Callable[[], bool] = lambda: False
    """Function that says whether this node may soon be gone, so that a copy is made at once."""


def run_writer(service: WriterService, should_stop: Callable[[], bool]) -> None:
    """Write all that comes for one run, until asked to stop and nothing is left to write.

    Raises
    ------
    ChimbukoError
        The store is unusable, or store or broker could still not be used ``STOP_GRACE_S`` after being asked
        to stop. What is not stored is not acknowledged.
    """
    status = service.status
    while True:
        is_stopping = should_stop()
        try:
            is_idle = service.serve_once(is_stopping)
        except redis.RedisError as error:
            service.read_again()
            status.wait(ServiceError(f"broker does not answer ({error}); trying again"), is_stopping)
        except StoreDamaged as error:
            if not service.put_aside(error):
                status.wait(error, is_stopping)
        except StoreBusy as error:
            # A report may have been lost with a broker that was started again meanwhile.
            service.read_again()
            status.wait(error, is_stopping)
        else:
            status.are_over()
            if is_stopping and is_idle:
                service.close()
                return


class WriterService:
    """Writer that takes what comes at the broker into the store.

    Parameters
    ----------
    broker
        Broker of the run, with the messages of agents and server.
    """

    def __init__(self, broker: RunBroker, destination: Destination) -> None:
        self.status = WriterStatus(broker)
        self._broker = broker
        self._client, self._keys, self._seal = broker.client, broker.keys, broker.seal
        self._destination = destination
        least_us = destination.alert_us
        alerted = None if least_us is None else AlertedRun(destination.run_id, broker, least_us)
        self._alerting = Alerting(alerted, destination.sinks, self.status.report)
        self._put_aside = 0
        self._engine: Engine | None = None
        self._records_to = b"0"
        self._statistics_to = self._samples_to = b"0"
        self._reader = PatientReader(broker)
        self._stored_at = -GATHER_S
        self._copies = None if destination.copy is None else StoreCopies(destination.copy)
        self._copied_for = b""
        self._has_hastened = False
        self._incidents: LiveIncidents | None = None
        self._is_explaining = True
        self._metrics = b""
        self._metrics_at_s = 0.0
        self._slow_ranks: dict[int, list[SlowRank]] = {}
        """Slow ranks by part of the parameter server."""

    def open(self) -> Engine:
        """Open the store, where it is not open yet.

        Raises
        ------
        StoreError
            The store cannot be used.
        """
        if self._engine is None:
            self._engine = open_for_writing(self._destination.url)
            self._writer = Writer(self._engine, self._destination.run_id)
            self._incidents = None
            if self._destination.info is not None:
                self._writer.write_run(self._destination.info)
        return self._engine

    def put_aside(self, error: StoreDamaged) -> bool:
        """Put a damaged store aside, so that a new one is begun.

        Return False where it is not the run's own, or that does not help.
        """
        if self._engine is not None:
            # A user may put a whole file in its place.
            self._engine.dispose()
            self._engine = None
        if self._destination.info is None or self._put_aside == MOST_PUT_ASIDE:
            return False
        try:
            aside = put_aside(self._destination.url)
        except OSError:
            return False
        self._put_aside += 1
        self.read_again()
        self.status.report(
            f"{error}; it was put aside as {aside}, with all that was stored so far, and a new one begun"
        )
        return True

    def close(self) -> None:
        """Close the store; all is in it."""
        close(self.open())
        self._alerting.stop()

    def serve_once(self, is_stopping: bool) -> bool:
        """Store and acknowledge what has come; return True if nothing had."""
        self.open()
        keys = self._keys
        wanted = {
            keys.records: self._records_to,
            keys.statistics: self._statistics_to,
            keys.node_batches: self._samples_to,
        }
        wait_s = IDLE_S if self._incidents is None else self._incidents.wait_s(IDLE_S)
        wait_s = 0.0 if is_stopping else wait_s
        (records, statistics, samples), is_awaited = self._reader.read(wanted, READ_COUNT, wait_s)
        if records:
            if not (is_stopping or is_awaited):
                records += self._gather(records)
            self._store_records(records)
        if statistics:
            self._store_statistics(statistics)
        if samples:
            self._store_samples(samples)
        self._explain(lambda incidents: incidents.keep_up(is_urgent=is_stopping))
        self._keep_metric_findings(is_stopping)
        self._alerting.take(Tick(self.open()))
        if self._copies is not None:
            self._keep_copy(self._copies)
        return not (records or statistics or samples)

    def _keep_metric_findings(self, is_urgent: bool) -> None:
        """Store what was found in published quantities, and alert people to what is new of it."""
        if time.monotonic() < self._metrics_at_s and not is_urgent:
            return
        self._metrics_at_s = time.monotonic() + IDLE_S
        try:
            sealed, found = published(self._broker, self._metrics)
        except msgspec.MsgspecError as error:
            log(f"findings in published quantities are left out: {error}")
            return
        if found:
            new = frozenset(self._writer.write_metric_findings(found))
            provenance = Provenance(self.open(), self._destination.run_id)
            self._alerting.take(MetricFindingsStored(provenance, new))
        self._metrics = sealed

    def _keep_copy(self, copies: StoreCopies) -> None:
        asked = cast("bytes | None", self._client.get(self._keys.copy_wanted))
        is_urgent = self._destination.is_urgent() and not self._has_hastened
        is_wanted = asked is not None and asked != self._copied_for
        if copies.keep_up(self.open(), is_wanted or is_urgent):
            self._has_hastened = self._destination.is_urgent()
            if asked is not None:
                self._copied_for = asked
                self._client.set(self._keys.copy_made, asked)

    def read_again(self) -> None:
        """Read from the beginning next time: a restarted broker may number its entries anew."""
        self._records_to = self._statistics_to = self._samples_to = b"0"
        self._metrics = b""
        self._reader.read_again()

    def _gather(self, entries: Entries) -> Entries:
        """Return ``entries`` with what follows until the next transaction is due, or is waited for."""
        left_s = self._stored_at + GATHER_S - time.monotonic()
        room = READ_COUNT - len(entries)
        if left_s <= 0.0 or not room or sum(len(payload) for _, payload in entries) >= READ_BYTES:
            return []
        self._reader.read({}, 1, left_s)
        return self._broker.read(self._keys.records, entries[-1][0], room)

    def _store_records(self, entries: Entries) -> None:
        batches = list(self._seal.decoded(entries, _batches))
        try:
            self._write(batches)
        except StoreRefused:
            self._write_one_by_one(batches)
        with self._client.pipeline(transaction=False) as pipeline:
            if batches:
                pipeline.hset(
                    self._keys.record_acks, mapping={batch.stream: batch.sequence for batch in batches}
                )
            pipeline.xdel(self._keys.records, *(entry for entry, _ in entries))
            pipeline.execute()
        self._records_to = entries[-1][0]
        self._stored_at = time.monotonic()

    def _write(self, batches: Sequence[RecordBatch]) -> None:
        self._alerting.take(RecordsCame(self.open(), batches))
        self._writer.write(batches)
        self._explain(lambda incidents: incidents.take(batches))
        if any(batch.is_from_stream and batch.health.state != READING for batch in batches):
            # This comes before its agent hears that all is stored, and ends.
            self._explain(lambda incidents: incidents.keep_up(is_urgent=True))
        if self._alerting.is_urgent:
            self._explain(lambda incidents: incidents.keep_up(is_urgent=True))
            self._alerting.take(Explained(self._explanation))

    def _explanation(self, call_id: str) -> tuple[str, str]:
        return self._incidents.explanation(call_id) if self._incidents is not None else ("", "")

    def _explain(self, work: Callable[[LiveIncidents], None]) -> None:
        """Do some work on incidents; what goes wrong there must not keep records from the store."""
        if not self._is_explaining:
            return
        try:
            if self._incidents is None:
                provenance = Provenance(self.open(), self._destination.run_id)
                stored, causes = Incidents(provenance.reader), ModeCauses(provenance)
                self._alerting.take(Resumed(stored))
                live = LiveIncidents(
                    self._writer,
                    time.monotonic,
                    lambda: recurring(
                        provenance, list(chain.from_iterable(self._slow_ranks.values())), causes
                    ),
                    self._ask,
                    lambda: self._alerting.take(RecurrencesStored(stored)),
                    lambda incidents: self._alerting.take(IncidentsChanged(incidents)),
                )
                live.resume(provenance)
                self._incidents = live
            work(self._incidents)
        except (StoreError, redis.RedisError):
            raise
        except Exception as error:
            self._is_explaining, self._incidents = False, None
            log(f"incidents are found at the end of the run only: {type(error).__name__}: {error}")

    def _ask(self, requests: Sequence[WaitsRequest]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for request in requests:
                sealed = self._seal.encode(request)
                pipeline.xadd(self._keys.waits_requests, {PAYLOAD: sealed}, maxlen=MOST_REQUESTS)
            pipeline.execute()

    def _write_one_by_one(self, batches: Sequence[RecordBatch]) -> None:
        """Write batches one by one, so that one that can never be stored does not keep the others out."""
        for batch in batches:
            try:
                self._write([batch])
            except StoreRefused as error:
                log(f"batch {batch.sequence} of stream {batch.stream} is left out: {error}")

    def _store_samples(self, entries: Entries) -> None:
        """Store samples of nodes."""
        batches = list(self._seal.decoded(entries, _samples))
        try:
            self._writer.write_samples(batches)
            self._explain(lambda incidents: incidents.take_samples(unpacked(one.rows) for one in batches))
        except StoreRefused as error:
            log(f"samples of nodes are left out: {error}")
        self._client.xdel(self._keys.node_batches, *(entry for entry, _ in entries))
        self._samples_to = entries[-1][0]

    def _store_statistics(self, entries: Entries) -> None:
        """Store the server's statistics over all agents; it sends no more before this message is removed."""
        for statistics in self._seal.decoded(entries, _statistics):
            self._slow_ranks[statistics.part] = statistics.slow_ranks
            try:
                self._writer.write_statistics(statistics)
                self._alerting.take(HealthStored(statistics.health))
            except StoreRefused as error:
                log(f"statistics are left out: {error}")
        self._client.xdel(self._keys.statistics, *(entry for entry, _ in entries))
        self._statistics_to = entries[-1][0]
