"""What the rows of a rank answer to those who ask whom a delay held up, and what it was in."""

from __future__ import annotations

from collections.abc import Sequence

from chimbuko.causes.evidence.recordedlosses import RecordedLosses
from chimbuko.causes.evidence.recordedrows import Interval, RecordedRows
from chimbuko.causes.evidence.recordedwaits import RecordedWaits
from chimbuko.core.calls.record import CallRecord


def answers(rows: RecordedRows, asked: Sequence[Interval]) -> list[CallRecord]:
    """Records of calls that waited in the intervals, and of those in which the rank lost time by itself."""
    waits = RecordedWaits(rows)
    # All calls are looked through only for who asks for that.
    losses = RecordedLosses(rows) if any(one.least_own_us for one in asked) else None
    found: dict[str, CallRecord] = {}
    for one in asked:
        found |= {record.id: record for record in waits.during(one)}
        lost = losses.during(one) if losses is not None and one.least_own_us else None
        found |= {} if lost is None else {lost.id: lost}
    return list(found.values())
