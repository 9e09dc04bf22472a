"""Calls and incidents of a run that are kept in memory until its end, where they are judged and told once
more: calls are not read from the store again, and incidents are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping

from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.tracker import Changes
from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.write.events import CallsStored, StoreEvent

MOST_KEPT = 20_000
"""Most calls, and most incidents, that are kept: 60 MB of either."""


class Kept:
    """Calls and incidents of a run, none where there are too many."""

    def __init__(self) -> None:
        self._records: dict[str, CallRecord] = {}
        self._incidents: dict[int, Incident] = {}
        self._incident_of: dict[str, int] = {}
        self._are_calls_given_up = False
        self._are_stored = False

    @property
    def records(self) -> Mapping[str, CallRecord]:
        """Calls by id, as causes need them."""
        return self._records

    @property
    def incidents(self) -> Mapping[int, Incident] | None:
        """Incidents by number; None where they are in the store, as there are too many to be kept."""
        return None if self._are_stored else self._incidents

    def take(self, event: StoreEvent) -> None:
        """Take an event of the store."""
        if not isinstance(event, CallsStored) or self._are_calls_given_up:
            return
        for record in event.records:
            known = self._records.get(record.id)
            if known is None or known.revision <= record.revision:
                self._records[record.id] = record
        if len(self._records) > MOST_KEPT:
            self._are_calls_given_up = True
            self._records.clear()

    def hold(self, changes: Changes) -> Changes | None:
        """Keep what has changed in the incidents; return what is to be stored after all, if anything."""
        if self._are_stored:
            return changes
        self._incidents |= {one.number: one for one in changes.incidents}
        for number in (*changes.merged, *changes.gone):
            self._incidents.pop(number, None)
        self._incident_of |= changes.incident_of
        if len(self._incidents) <= MOST_KEPT:
            return None
        left = self.left()
        self._incidents, self._incident_of, self._are_stored = {}, {}, True
        return left

    def left(self) -> Changes:
        """Return all of the incidents that is not stored."""
        return Changes(list(self._incidents.values()), {}, [], self._incident_of)
