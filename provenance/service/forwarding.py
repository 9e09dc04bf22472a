"""What several writers of a run's store tell its keeper: the one process that explains what they stored."""

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
    """Batches with calls, and one of each rank that is new, without what incidents do not need."""
    severe: list[SevereCall]
    """Severe calls that the store did not have."""
    sequences: dict[str, int]
    """Number of the last batch of each rank's stream that has ended. Its agent learns from the keeper that it
    is stored: until then it answers questions about delays.
    """


class Forwarding:
    """Choice of what the keeper has to know of what one of several writers stores."""

    def __init__(self) -> None:
        self._ranks: set[RankKey] = set()
        """Ranks that the keeper has heard of."""

    def of(self, written: Written, sequences: Mapping[str, int]) -> StoredCalls | None:
        """Return what to tell, or None if there is nothing.

        Parameters
        ----------
        sequences
            Number of the last batch of each rank's stream, whether or not it has ended.
        """
        batches = [self._bare(batch) for batch in written.batches if self._is_news(batch)]
        ended = {one.stream for one in written.batches if has_ended(one)}
        later = {stream: number for stream, number in sequences.items() if stream in ended}
        if not (batches or later or written.severe):
            return None
        return StoredCalls(batches, list(written.severe), later)

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
