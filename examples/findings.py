"""What a run has found."""

from __future__ import annotations

from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import Provenance


def all_anomalies(provenance: Provenance) -> list[CallSummary]:
    """Every anomaly of a run."""
    found: list[CallSummary] = []
    cursor = None
    while True:
        page = provenance.calls.page(CallFilter(), limit=1000, cursor=cursor)
        found += page.calls
        cursor = page.next
        if cursor is None:
            return found
