"""Incidents of a run that goes on: they grow and merge as its calls are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chimbuko.causes.evidence.flag import Flag, flag_of, may_matter
from chimbuko.causes.incident import Incident, incident_id
from chimbuko.causes.incidents.interruptions import Interruptions
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.incidents.tracker import IncidentTracker
from chimbuko.causes.recurrence import Recurrence
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.monitor.samples.nodebatch import NodeBatch
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.nodes.nodesamples import FOREVER_US, NodeSamples
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.inquiries import Inquiries
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch, WaitsRequest

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


class LiveIncidents:
    """Incidents of the run that is being written.

    Methods raise ``StoreError`` where the store cannot be used.

    Parameters
    ----------
    clock
        Monotonic clock, in seconds.
    recurring
        Returns the recurring findings beside short delays.
    ask
        Called with questions to agents: who waited for a delay, or lost the time, in calls that were not
        flagged.
    on_recurring
        Called when recurring findings have changed in the store.
    on_incidents
        Called with the incidents that have changed in the store.
    """

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        recurring: Callable[[], Sequence[Recurrence]] = tuple,
        ask: Callable[[Sequence[WaitsRequest]], None] = lambda requests: None,
        on_recurring: Callable[[], None] = lambda: None,
        on_incidents: Callable[[Sequence[Incident]], None] = lambda incidents: None,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._recurring = recurring
        self._reported: list[Recurrence] = []
        self._tracker = IncidentTracker(writer.last_incident() + 1)
        self._interruptions = Interruptions()
        self._ask = ask
        self._on_recurring = on_recurring
        self._on_incidents = on_incidents
        self._inquiries = Inquiries(self._tracker.evidence)
        self._newest_us = 0
        self._has_news = False
        self._due_s = clock()
        self._recurrences_due_s = clock() + RECURRENCES_S

    def resume(self, provenance: Provenance) -> None:
        """Go on with what an earlier writer stored of the last ``HORIZON_US``: its incidents may grow."""
        known = Incidents(provenance.reader).recent(HORIZON_US)
        if not known:
            return
        since_us, numbers = min(one.begin_us for one in known), {one.id: one.number for one in known}
        self._tracker.incident_of |= {loss.id: one.number for one in known for loss in one.losses}
        stored = provenance.calls.in_time(CallFilter(label=None, time_min_us=since_us))
        # Incidents that began before that stay as they are.
        records = [one for one in stored if not one.incident_id or one.incident_id in numbers]
        self._tracker.incident_of |= {one.id: numbers[one.incident_id] for one in records if one.incident_id}
        self._put(self._flags_of(records))
        self.take_samples(NodeSamples(provenance.reader).batches(since_us, FOREVER_US))

    def take(self, batches: Sequence[RecordBatch]) -> None:
        """Take in what is stored now; ranks become known also where none of their calls are recorded."""
        for batch in batches:
            self._tracker.evidence.ranks[batch.health.program].add(batch.health.rank)
        self._put([flag for batch in batches if batch.records.count for flag in self._flags(batch)])

    def _put(self, flags: Sequence[Flag]) -> None:
        if flags:
            self._tracker.put(flags)
            self._newest_us = max(self._newest_us, *(flag.exit_us for flag in flags))
            self._has_news = True

    def take_samples(self, batches: Iterable[NodeBatch]) -> None:
        """Take in samples of nodes that are stored now."""
        for batch in batches:
            self._tracker.put_samples(batch)
            self._newest_us = max([self._newest_us, *(loss.end_us for loss in batch.losses)])
            self._has_news = True

    def wait_s(self, most_s: float) -> float:
        """Return how long nothing has to be done, at most ``most_s``."""
        is_due = self._has_news or self._inquiries.is_waiting
        return max(0.0, min(most_s, self._due_s - self._clock())) if is_due else most_s

    def keep_up(self, is_urgent: bool = False) -> None:
        """Explain what came, and write what has changed, if it is time for that."""
        begin_s = self._clock()
        if begin_s >= self._recurrences_due_s:
            self._report_what_recurs(begin_s)
        if not (self._has_news or self._inquiries.is_waiting) or (begin_s < self._due_s and not is_urgent):
            return
        changes = self._tracker.update()
        self._has_news = False
        self._writer.write_incidents(changes)
        self._on_incidents(changes.incidents)
        self._interruptions.take(changes)
        self._inquiries.take(changes, begin_s)
        if requests := self._inquiries.due(begin_s, is_urgent):
            self._ask(requests)
        self._forget_before(self._newest_us - HORIZON_US)
        if len(self._tracker.evidence.flags) > MOST_CALLS:
            self._forget_before(self._middle_us())
        took_s = self._clock() - begin_s
        self._due_s = begin_s + max(PERIOD_S, took_s / MOST_SHARE)

    def _report_what_recurs(self, begin_s: float) -> None:
        # Slow modes are part of what the detector has learned, so their calls may no longer be flagged.
        found = [*self._interruptions.found(self._tracker.evidence.nodes), *self._recurring()]
        if found != self._reported:
            self._writer.write_recurrences(found)
            self._on_recurring()
            self._reported = found
        took_s = self._clock() - begin_s
        self._recurrences_due_s = begin_s + max(RECURRENCES_S, took_s / MOST_SHARE_OF_RECURRENCES)

    def explanation(self, call_id: str) -> tuple[str, str]:
        """Return id and sentence of the incident that a call belongs to; empty where it is not known."""
        incident = self._tracker.incident(call_id)
        return ("", "") if incident is None else (incident_id(incident.number), sentence(incident))

    def _flags(self, batch: RecordBatch) -> Sequence[Flag]:
        return self._flags_of(unpack(batch.records, batch.health, ""))

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
