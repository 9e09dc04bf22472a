"""A recorded program whose clocks are put apart: its incidents stay what they are."""

from __future__ import annotations

from pathlib import Path

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.causes.evidence.flag import flag_of
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.core.config import AnalysisConfig
from evaluation.recorded import analyse
from tests.causes.stories import by_another_clock

LEADS_MS = (-90, -40, 5, 40, 90)
DRIFT = 1e-4
LEAST_SAME = 0.97


def origins_of(records: list[CallRecord]) -> dict[str, str]:
    """Of each flagged call the one that its incident began with."""
    tracker = IncidentTracker()
    for record in records:
        tracker.put_communication(record)
    tracker.put(flag_of(record) for record in records if record.label is Label.ANOMALY)
    incidents = {one.number: one for one in tracker.update().incidents}
    return {call: incidents[number].call_id for call, number in tracker.incident_of.items()}


def test_clocks_that_are_apart_and_drift_give_the_same_incidents(real_traces: Path) -> None:
    """By TAU there are no numbers of collective operations: messages alone say how far clocks are apart."""
    records = analyse(find_recorded([str(real_traces / "heat4" / "*.bp")]), AnalysisConfig(), 1).records()
    begin_us = min(record.entry_us for record in records)
    expected = origins_of(records)
    for lead_ms in LEADS_MS:
        shifted = [
            by_another_clock(one, 1000 * lead_ms, DRIFT, begin_us) if one.rank >= 2 else one
            for one in records
        ]
        found = origins_of(shifted)
        same = sum(found[call] == origin for call, origin in expected.items())
        assert same >= LEAST_SAME * len(expected), f"{lead_ms} ms ahead: {same} of {len(expected)}"
