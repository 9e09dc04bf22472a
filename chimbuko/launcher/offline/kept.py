"""Calls of a run that are kept in memory, so that they are not read again where they are explained again."""

from __future__ import annotations

from collections.abc import Mapping

from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.write.events import CallsStored, StoreEvent

MOST_KEPT = 20_000
"""Most calls that are kept, 60 MB."""


class KeptCalls:
    """Calls that were stored, as causes need them; none of a run that has too many."""

    def __init__(self) -> None:
        self._records: dict[str, CallRecord] = {}
        self._is_given_up = False

    @property
    def records(self) -> Mapping[str, CallRecord]:
        """Calls by id."""
        return self._records

    def take(self, event: StoreEvent) -> None:
        """Take an event of the store."""
        if not isinstance(event, CallsStored) or self._is_given_up:
            return
        for record in event.records:
            known = self._records.get(record.id)
            if known is None or known.revision <= record.revision:
                self._records[record.id] = record
        if len(self._records) > MOST_KEPT:
            self._is_given_up = True
            self._records.clear()
