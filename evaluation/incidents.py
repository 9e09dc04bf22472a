"""Incidents against the truth: whether each delay became one, with what waited for it, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chimbuko.causes.evidence.flag import Flag, flag_of
from chimbuko.causes.incident import Incident
from chimbuko.causes.incidents.interruptions import Interruptions, is_among
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from evaluation.tables import ResultTable
from examples.truth import InjectedDelay, match

LEAST_SHARE = 0.5
"""A flagged wait of another rank is one for a delay that went on during so much of what the wait lost."""


@dataclass(frozen=True)
class IncidentScore:
    """Counts of one trace."""

    delays: int
    """Injected."""
    flagged: int
    """Of these."""
    right_origins: int
    """Flagged delays with an incident whose origin has the rank and function of the delay."""
    waits: int
    """Flagged calls in which other ranks waited during a flagged delay."""
    right_waits: int
    """Of these in the delay's incident."""
    waits_as_origins: int
    incidents: int
    """Listed as such."""
    interruptions: int
    """Short ones that are reported as one recurring finding."""
    recurring: int
    """Recurring findings."""
    not_explained_us: float
    excess_us: float
    """Of all flagged calls."""

    @property
    def reported(self) -> int:
        """How many things a reader sees."""
        return self.incidents + self.recurring


def measure(records: Iterable[CallRecord], delays: Sequence[InjectedDelay]) -> IncidentScore:
    """Incidents of the recorded calls of one trace, against its delays."""
    tracker = IncidentTracker()
    for call in records:
        tracker.put_communication(call)
        if call.label is Label.ANOMALY:
            tracker.put([flag_of(call)])
    changes = tracker.update()
    incidents = {incident.number: incident for incident in changes.incidents}
    short = Interruptions()
    short.take(changes)
    recurrences = short.found()
    matched = [
        (delay, flag) for delay, flag in match(list(delays), list(tracker.evidence.flags.values())) if flag
    ]
    incident_of = {delay: incidents[changes.incident_of[flag.id]] for delay, flag in matched}
    origins = {incident.call_id for incident in incidents.values()}
    waits = list(_waits(tracker.evidence.flags.values(), [delay for delay, _ in matched]))
    among = sum(is_among(incident, one) for incident in incidents.values() for one in recurrences)
    parts = [part for of_call in tracker.parts.values() for part in of_call]
    return IncidentScore(
        delays=len(delays),
        flagged=len(matched),
        right_origins=sum(_is_right(incident_of[delay], delay) for delay, _ in matched),
        waits=len(waits),
        right_waits=sum(
            changes.incident_of[flag.id] == incident_of[delay].number and _is_right(incident_of[delay], delay)
            for flag, delay in waits
        ),
        waits_as_origins=sum(flag.id in origins for flag, _ in waits),
        incidents=len(incidents) - among,
        interruptions=among,
        recurring=len(recurrences),
        not_explained_us=sum(part.lost_us for part in parts if part.kind == "not explained"),
        excess_us=sum(part.lost_us for part in parts),
    )


def table(scores: Iterable[tuple[str, str, IncidentScore]]) -> ResultTable:
    """One row per trace and detector."""
    columns = (
        *("trace", "detector", "delays", "flagged", "origin right", "waits", "in it", "as origins"),
        *("incidents", "recurring", "interruptions in it", "not explained"),
    )
    rows = [
        (
            trace,
            detector,
            *map(str, (one.delays, one.flagged, one.right_origins, one.waits, one.right_waits)),
            *map(str, (one.waits_as_origins, one.incidents, one.recurring, one.interruptions)),
            f"{one.not_explained_us / max(one.excess_us, 1.0):.1%}",
        )
        for trace, detector, one in scores
    ]
    return ResultTable("Incidents", columns, rows)


def _is_right(incident: Incident, delay: InjectedDelay) -> bool:
    name = incident.function.split(" [")[0].rsplit(".")[-1]
    return (incident.rank, name) == (delay.rank, delay.function)


def _waits(flags: Iterable[Flag], delays: Sequence[InjectedDelay]) -> Iterable[tuple[Flag, InjectedDelay]]:
    """Flagged waits of other ranks, with the delay that they were for."""
    for flag in flags:
        if not flag.is_wait:
            continue
        during = [(_overlap_us(flag, delay), delay) for delay in delays if delay.rank != flag.rank]
        overlap_us, delay = max(during, key=lambda one: one[0], default=(0, None))
        if delay is not None and overlap_us >= LEAST_SHARE * flag.excess_us:
            yield flag, delay


def _overlap_us(flag: Flag, delay: InjectedDelay) -> int:
    return min(flag.exit_us, delay.end_us) - max(flag.entry_us, delay.start_us)
