"""Stores what came of a run, with its incidents as they grow, and tells others of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from chimbuko.monitor.sampling.nodebatch import PackedBatch
from chimbuko.provenance.service.explainer import Explainer
from chimbuko.provenance.service.runstore import Destination, RunStore
from chimbuko.provenance.store.engine import StoreRefused
from chimbuko.provenance.write.events import (
    CallsStored,
    HealthStored,
    SamplesStored,
    SevereCallsStored,
    StoreEvent,
    Tick,
)
from chimbuko.provenance.write.kept import Kept
from chimbuko.provenance.write.severecalls import SevereCall, new_severe_calls
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import RecordBatch, RunStatistics, WaitsRequest


class Written(msgspec.Struct, frozen=True):
    """Batches that were written, and the severe calls that the store did not have."""

    batches: Sequence[RecordBatch]
    severe: Sequence[SevereCall] = ()


class Storing:
    """Storing of a run: each method is one transaction, and what follows from it.

    What the database cannot store is left out, with a line in the log; other errors of the store are raised,
    and the same call may succeed later.

    Parameters
    ----------
    tell
        Takes events of the store.
    ask, clock, kept
        As for ``Explainer``.
    """

    def __init__(
        self,
        destination: Destination,
        tell: Callable[[StoreEvent], None],
        ask: Callable[[Sequence[WaitsRequest]], None],
        clock: Callable[[], float] = time.monotonic,
        kept: Kept | None = None,
    ) -> None:
        self._clock = clock
        self._destination = destination
        self._tell = tell
        self.store = RunStore(destination)
        self.explainer = Explainer(self.store, tell, ask, clock, kept)

    def records(self, batches: Sequence[RecordBatch]) -> Written:
        """Store batches of records; where one of them is refused, one by one."""
        try:
            return self._write(batches)
        except StoreRefused:
            return self._write_one_by_one(batches)

    def tell_of(self, batches: Sequence[RecordBatch]) -> None:
        """Explain batches that are stored, by this writer or by others, and tell of them."""
        stored = CallsStored(self._clock(), batches)
        self.explainer.take(stored)
        self._tell(stored)

    def statistics(self, statistics: RunStatistics) -> None:
        """Store the server's statistics over all agents."""
        self.explainer.take_statistics(statistics)
        try:
            self.store.writer.write_statistics(statistics)
            self._tell(HealthStored(self._clock(), statistics.health))
        except StoreRefused as error:
            log(f"statistics are left out: {error}")

    def samples(self, batches: Sequence[PackedBatch]) -> None:
        """Store samples of nodes."""
        try:
            self.store.writer.write_samples(batches)
        except StoreRefused as error:
            log(f"samples of nodes are left out: {error}")
            return
        stored = SamplesStored(self._clock(), batches)
        self.explainer.take(stored)
        self._tell(stored)

    def explain(self, is_urgent: bool, severe: Sequence[SevereCall] = ()) -> None:
        """Explain what is stored, where that is due or urgent, and tell of severe calls."""
        self.explainer.take(Tick(self._clock(), is_urgent))
        if severe:
            self._tell(SevereCallsStored(self._clock(), self.explainer.explained(severe)))

    def _write(self, batches: Sequence[RecordBatch]) -> Written:
        severe = self._new_severe(batches)
        self.store.writer.write(batches)
        self.store.check()
        if not self._destination.writer:
            self.tell_of(batches)
        return Written(batches, severe)

    def _new_severe(self, batches: Sequence[RecordBatch]) -> list[SevereCall]:
        """Return the severe calls that the store does not have."""
        least_us = self._destination.severe_us
        if least_us is None:
            return []
        return new_severe_calls(self.store.engine, self._destination.run_id, batches, least_us)

    def _write_one_by_one(self, batches: Sequence[RecordBatch]) -> Written:
        """Write batches one by one, so that one that can never be stored does not keep the others out."""
        written, severe = list[RecordBatch](), list[SevereCall]()
        for batch in batches:
            try:
                severe += self._write([batch]).severe
                written.append(batch)
            except StoreRefused as error:
                log(f"batch {batch.sequence} of stream {batch.stream} is left out: {error}")
        return Written(written, severe)
