"""Incidents of a run that goes on: they grow and merge as its calls are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from chimbuko.causes.evidence.flag import Flag, flag_of, may_matter
from chimbuko.causes.incident import Incident, incident_id
from chimbuko.causes.incidents.interruptions import Interruptions
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import Changes, IncidentTracker
from chimbuko.causes.recurrence import Recurrence
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.statemachine import Story
from chimbuko.monitor.sampling.nodebatch import NodeBatch, unpacked
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.nodelist import FOREVER_US, NodeSamples
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.events import (
    CallsStored,
    IncidentsStored,
    RanksAsked,
    RecurrencesStored,
    SamplesStored,
    Tick,
)
from chimbuko.provenance.write.inquiries import Inquiries
from chimbuko.provenance.write.pace import Pace
from chimbuko.runtime.protocol.messages import WaitsRequest


class Past(msgspec.Struct, frozen=True):
    """Past of a run that an earlier writer stored."""

    last_number: int = 0
    """Number of the newest incident; 0 without any."""
    incidents: Sequence[Incident] = ()
    """Incidents that may grow."""
    records: Sequence[CallRecord] = ()
    """Calls of these incidents, and calls of no incident."""
    samples: Sequence[NodeBatch] = ()

    @classmethod
    def read(cls, provenance: Provenance, length_us: int) -> Past:
        """Read what is stored of the last ``length_us``.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        found = Incidents(provenance.reader)
        last_number, known = found.last_number(), found.recent(length_us)
        if not known:
            return cls(last_number)
        since_us, ids = min(one.begin_us for one in known), {one.id for one in known}
        stored = provenance.calls.in_time(CallFilter(label=None, time_min_us=since_us))
        # Incidents that began before that stay as they are.
        records = [one for one in stored if not one.incident_id or one.incident_id in ids]
        return cls(
            last_number, known, records, list(NodeSamples(provenance.reader).batches(since_us, FOREVER_US))
        )


PERIOD_S = 0.5
"""Least time from one look at new calls to the next."""
MOST_SHARE = 0.2
"""Largest share of the writer's time for incidents: while more calls come than that suffices for, looks are
further apart."""
HORIZON_US = 30_000_000
"""Time before the newest call after which a call has nothing to do with new ones."""
MOST_CALLS = 20_000
"""Most calls that are held, 40 MB. The oldest are left out, and explained at the end of the run."""
RECURRENCES_S = 5.0
"""Time between two reports of recurring findings."""
MOST_SHARE_OF_RECURRENCES = 0.02
"""Largest share of the writer's time for recurring findings without flagged calls."""


class RecurringRead(msgspec.Struct, frozen=True):
    """Event: recurring findings, other than short delays, were read from the store."""

    time_s: float
    found: Sequence[Recurrence]


LiveEvent = (
    CallsStored | SamplesStored | Tick | IncidentsStored | RanksAsked | RecurringRead | RecurrencesStored
)


class StoreChanges(msgspec.Struct, frozen=True):
    """Instruction to store what has changed in the incidents; ``IncidentsStored`` answers."""

    changes: Changes


class Ask(msgspec.Struct, frozen=True):
    """Instruction to ask agents who waited for a delay, or lost the time, in calls that were not flagged;
    ``RanksAsked`` answers.
    """

    requests: Sequence[WaitsRequest]


class ReadRecurring(msgspec.Struct, frozen=True):
    """Instruction to read what recurs beside short delays; ``RecurringRead`` answers."""


class StoreRecurrences(msgspec.Struct, frozen=True):
    """Instruction to store what recurs; ``RecurrencesStored`` answers."""

    found: Sequence[Recurrence]


LiveInstruction = StoreChanges | Ask | ReadRecurring | StoreRecurrences


class LiveState(Enum):
    """State of the incidents of a run, against what is stored of them."""

    QUIET = "quiet"
    """All that came is explained, and there is nothing to ask."""
    NEWS = "news"
    """Something came, or has to be asked, and the next look is due some time."""
    STORING = "storing"
    """Changes were given out to be stored, and are given out again until they are stored."""


class LiveIncidents:
    """Incidents of the run that is being written: a state machine without a clock, a store or a broker.

    ::

                 CallsStored                Tick, when a look is due
                 SamplesStored              ─▶ StoreChanges
        QUIET ─────────────────▶ NEWS ────────────────────────────▶ STORING ─┐ Tick
          ▲                       ▲                                  │  ▲    │ ─▶ StoreChanges
          │                       │ IncidentsStored, calls came      │  └────┘
          │                       │ meanwhile, or delays wait to be  │
          │                       └──────────────asked about ────────┤
          └────────────────────────IncidentsStored ─▶ Ask────────────┘

    ``RanksAsked`` is news.

    Beside that, in any state: ``Tick``, when a report is due, ─▶ ``ReadRecurring``; ``RecurringRead``, where
    that has changed, ─▶ ``StoreRecurrences``; ``RecurrencesStored``.

    Parameters
    ----------
    past
        Past of the run that an earlier writer stored: its incidents may grow.
    is_reporting
        Whether it is told again and again what recurs.
    """

    def __init__(self, now_s: float, past: Past, is_reporting: bool = True) -> None:
        self._tracker = IncidentTracker(past.last_number + 1)
        self._interruptions = Interruptions(self._tracker.evidence.nodes)
        self._inquiries = Inquiries(self._tracker.evidence)
        self._newest_us = 0
        self._has_news = False
        self._unstored: tuple[Tick, Changes] | None = None
        """Changes that are out to be stored, with the look that found them."""
        self._looks = Pace(PERIOD_S, MOST_SHARE, now_s)
        self._reported: Sequence[Recurrence] = ()
        self._report: tuple[float, Sequence[Recurrence]] = now_s, ()
        """Last report of what recurs: when it was begun, and what it says."""
        self._is_reporting = is_reporting
        self._reports = Pace(RECURRENCES_S, MOST_SHARE_OF_RECURRENCES, now_s + RECURRENCES_S)
        self.story = Story()
        self._resume(past)

    @property
    def state(self) -> LiveState:
        """State of the machine."""
        if self._unstored is not None:
            return LiveState.STORING
        return LiveState.NEWS if self._has_news or self._inquiries.is_waiting else LiveState.QUIET

    def validate_state(self) -> None:
        """Raise ``AssertionError`` where what is known contradicts itself."""
        if self._unstored is not None:
            tick, _ = self._unstored
            assert self._looks.is_due(tick.time_s) or tick.is_urgent, "a look came too soon"
        assert self._newest_us or not self._tracker.incident_of, "there are incidents, and no calls"

    def handle(self, event: LiveEvent) -> list[LiveInstruction]:
        """Take an event, and return what is to be done."""
        before = self.state
        instructions = self._handle(event)
        if instructions or self.state is not before:
            done = ", ".join(type(one).__name__ for one in instructions)
            self.story.note(
                event.time_s, type(event).__name__, f"{before.value} to {self.state.value}; {done}"
            )
        return instructions

    def _handle(self, event: LiveEvent) -> list[LiveInstruction]:
        match event:
            case CallsStored():
                self._take(event)
            case SamplesStored(_, batches):
                self._take_samples(unpacked(one.rows) for one in batches)
            case Tick():
                return self._look(event)
            case IncidentsStored():
                return self._settle(event.time_s)
            case RanksAsked(_, asked):
                self._tracker.note_asked(asked)
                self._has_news = True
            case RecurringRead():
                return self._tell_what_recurs(event)
            case RecurrencesStored():
                self._reported = self._report[1]
                self._rest_from_reports(event.time_s)
        return []

    def quiet_s(self, now_s: float, most_s: float) -> float:
        """Return how long nothing has to be done, at most ``most_s``."""
        match self.state:
            case LiveState.QUIET:
                return most_s
            case LiveState.NEWS:
                return min(most_s, self._looks.wait_s(now_s))
            case LiveState.STORING:
                return 0.0

    def explanation(self, call_id: str) -> tuple[str, str]:
        """Return id and sentence of the incident that a call belongs to; empty if it is not known."""
        incident = self._tracker.incident(call_id)
        return ("", "") if incident is None else (incident_id(incident.number), sentence(incident))

    def _look(self, tick: Tick) -> list[LiveInstruction]:
        instructions: list[LiveInstruction] = []
        if self._is_reporting and self._reports.is_due(tick.time_s):
            self._report = tick.time_s, ()
            instructions.append(ReadRecurring())
        is_due = self._looks.is_due(tick.time_s) or tick.is_urgent
        if self.state is LiveState.NEWS and is_due:
            self._unstored = tick, self._tracker.update()
            self._has_news = False
        if self._unstored is not None:
            instructions.append(StoreChanges(self._unstored[1]))
        return instructions

    def _settle(self, now_s: float) -> list[LiveInstruction]:
        """Go on from changes that are stored."""
        assert self._unstored is not None, "nothing was to be stored"
        (tick, changes), self._unstored = self._unstored, None
        self._interruptions.take(changes)
        self._inquiries.take(changes, tick.time_s)
        requests = self._inquiries.due(tick.time_s, tick.is_urgent)
        self._forget_before(self._newest_us - HORIZON_US)
        if len(self._tracker.evidence.flags) > MOST_CALLS:
            self._forget_before(self._middle_us())
        self._looks.rest(tick.time_s, now_s - tick.time_s)
        return [Ask(requests)] if requests else []

    def _tell_what_recurs(self, event: RecurringRead) -> list[LiveInstruction]:
        # Slow modes are part of what the detector has learned, so their calls may no longer be flagged.
        found = [*self._interruptions.found(), *event.found]
        self._report = self._report[0], found
        if found != list(self._reported):
            return [StoreRecurrences(found)]
        self._rest_from_reports(event.time_s)
        return []

    def _rest_from_reports(self, now_s: float) -> None:
        began_s = self._report[0]
        self._reports.rest(began_s, now_s - began_s)

    def _resume(self, past: Past) -> None:
        numbers = {one.id: one.number for one in past.incidents}
        self._tracker.note_asked({one.number: one.asked for one in past.incidents})
        self._tracker.incident_of |= {loss.id: one.number for one in past.incidents for loss in one.losses}
        self._tracker.incident_of |= {
            one.id: numbers[one.incident_id] for one in past.records if one.incident_id
        }
        self._put(self._flags_of(past.records))
        self._take_samples(past.samples)

    def _take(self, stored: CallsStored) -> None:
        """Take in calls; ranks become known also where none of their calls are recorded."""
        for batch in stored.batches:
            self._tracker.evidence.ranks[batch.health.program].add(batch.health.rank)
        self._put(self._flags_of(stored.records))

    def _put(self, flags: Sequence[Flag]) -> None:
        if flags:
            self._tracker.put(flags)
            self._newest_us = max(self._newest_us, *(flag.exit_us for flag in flags))
            self._has_news = True

    def _take_samples(self, batches: Iterable[NodeBatch]) -> None:
        for batch in batches:
            self._tracker.put_samples(batch)
            self._newest_us = max([self._newest_us, *(loss.end_us for loss in batch.losses)])
            self._has_news = True

    def _flags_of(self, records: Sequence[CallRecord]) -> Sequence[Flag]:
        for record in records:
            self._tracker.put_communication(record)
        flags = [flag_of(record) for record in records]
        for flag in flags:
            if not may_matter(flag):
                self._tracker.evidence.put_ordinary(flag)
        return [flag for flag in flags if may_matter(flag)]

    def _forget_before(self, time_us: int) -> None:
        self._tracker.forget_before(time_us)
        self._interruptions.settle_before(time_us)
        self._inquiries.settle_before(time_us)

    def _middle_us(self) -> int:
        """Return the time at which half of the calls had ended."""
        ends = sorted(flag.exit_us for flag in self._tracker.evidence.flags.values())
        return ends[len(ends) // 2]
