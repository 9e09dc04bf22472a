"""News from the writers of a run's store to its keeper, the one process that explains what they stored."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import READING
from chimbuko.provenance.service.storing import Written
from chimbuko.provenance.write.severecalls import SevereCall
from chimbuko.runtime.protocol.messages import RecordBatch


class StoredCalls(msgspec.Struct, frozen=True, array_like=True):
    """Calls that a writer has stored."""

    batches: list[RecordBatch]
    """Batches with calls, and the first batch of each new rank, reduced to what incidents need."""
    severe: list[SevereCall]
    """Severe calls that the store did not have."""
    sequences: dict[str, int]
    """Number of the last batch of each rank's stream that has ended. Its agent learns from the keeper that it
    is stored: until then it answers questions about delays.
    """


MOST_TOLD_PER_S = 2_000.0
"""Most calls in a second that all writers together tell the keeper of, the most severe first.

Each takes 0.11 ms there, so these are a quarter of a core. What it does not hear of is stored like all else,
and explained at the end of the run.
"""
SAVED_S = 5.0
"""Time for which what is not needed of that may be saved for later."""


class Forwarding:
    """Choice of what the keeper has to know of what one of several writers stores.

    Parameters
    ----------
    writers
        Number of writers.
    """

    def __init__(self, writers: int) -> None:
        self._ranks: set[RankKey] = set()
        """Ranks that the keeper has heard of."""
        self._told_per_s = MOST_TOLD_PER_S / writers
        self._room = SAVED_S * self._told_per_s
        self._filled_s = 0.0

    def of(self, written: Written, sequences: Mapping[str, int], now_s: float) -> StoredCalls | None:
        """Return what to tell, or None if there is nothing.

        Parameters
        ----------
        sequences
            Number of the last batch of each rank's stream, whether or not it has ended.
        now_s
            Time by any clock that never goes back.
        """
        batches = [self._bare(batch) for batch in written.batches if self._is_news(batch)]
        batches = self._told(batches, now_s)
        ended = {one.stream for one in written.batches if has_ended(one)}
        later = {stream: number for stream, number in sequences.items() if stream in ended}
        if not (batches or later or written.severe):
            return None
        return StoredCalls(batches, list(written.severe), later)

    def _told(self, batches: list[RecordBatch], now_s: float) -> list[RecordBatch]:
        """Return the batches for which the keeper has the time, in their order."""
        passed_s, self._filled_s = max(0.0, now_s - self._filled_s), now_s
        self._room = min(SAVED_S, self._room / self._told_per_s + passed_s) * self._told_per_s
        calls = sum(batch.records.count for batch in batches)
        if calls > self._room:
            return self._most_severe(batches)
        self._room -= calls
        return batches

    def _most_severe(self, batches: list[RecordBatch]) -> list[RecordBatch]:
        told: list[RecordBatch | None] = [None if batch.records.count else batch for batch in batches]
        highest = [batch.records.head_rows()["severity_us"].max(initial=0.0) for batch in batches]
        for at in sorted(range(len(batches)), key=lambda at: -highest[at]):
            count = batches[at].records.count
            if 0 < count <= self._room:
                told[at] = batches[at]
                self._room -= count
        return [batch for batch in told if batch is not None]

    def _is_news(self, batch: RecordBatch) -> bool:
        rank = batch.health.program, batch.health.rank
        is_new = rank not in self._ranks
        self._ranks.add(rank)
        return is_new or batch.records.count > 0

    def _bare(self, batch: RecordBatch) -> RecordBatch:
        return msgspec.structs.replace(
            batch, steps=[], metadata=[], dropped={}, counter_statistics=[], paths=None
        )


def has_ended(batch: RecordBatch) -> bool:
    """Return whether the stream of a batch has ended, so that its agent may soon be gone."""
    return batch.is_from_stream and batch.health.state != READING
