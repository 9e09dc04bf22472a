"""Part of a run that is exported, and the names of its ranks and threads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.export.version2 import gpu_streams
from chimbuko.provenance.incidents.incidentlist import IncidentDetails, Incidents, RecurrenceSummary
from chimbuko.provenance.incidents.metricfindings import MetricFinding, metric_findings
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.ranktimeline import Lane, RankTimeline, rank_timelines


class ExportSource:
    """Calls of a run that a filter matches, with all that is known of them; counts what is read.

    Parameters
    ----------
    on_call
        Called with each call that is read, before it is written.

    Attributes
    ----------
    anomalies, normal_calls
        Calls read so far.
    """

    def __init__(
        self,
        provenance: Provenance,
        wanted: CallFilter,
        on_call: Callable[[CallRecord], None] = lambda call: None,
    ) -> None:
        self.provenance = provenance
        self.run = provenance.run()
        self.anomalies = 0
        self.normal_calls = 0
        self._wanted = wanted
        self._on_call = on_call
        self._incident_ids: set[str] = set()
        self._programs = provenance.programs()
        self._gpu_streams = gpu_streams(provenance.metadata())

    def records(self) -> Iterator[CallRecord]:
        """Yield the calls by program, rank and step."""
        for call in self.provenance.calls.records(self._wanted):
            if call.label is Label.ANOMALY:
                self.anomalies += 1
            else:
                self.normal_calls += 1
            if call.incident_id:
                self._incident_ids.add(call.incident_id)
            self._on_call(call)
            yield call

    def incidents(self) -> Iterator[IncidentDetails]:
        """Yield the incidents that the calls read so far belong to, by number."""
        found = Incidents(self.provenance.reader).each()
        return (one for one in found if one.summary.id in self._incident_ids)

    def recurrences(self) -> list[RecurrenceSummary]:
        """Return the recurring findings of the run, whatever calls are wanted; the most costly first."""
        return Incidents(self.provenance.reader).recurrences()

    def metric_findings(self) -> list[MetricFinding]:
        """Return the findings in published quantities, whatever calls are wanted.

        In the order in which they were found.
        """
        return metric_findings(self.provenance.reader)

    def timelines(self) -> Iterator[RankTimeline]:
        """Yield the calls as they happened, by program and rank."""
        return rank_timelines(self.records())

    def start_us(self) -> int:
        """Start of the run's first step; 0 if there is none."""
        time_range = self.provenance.steps.time_range()
        return time_range[0] if time_range else 0

    def program_name(self, program: int) -> str:
        """Return the name of a program, such as ``heat2d``."""
        return self._programs.get(program, f"program {program}")

    def rank_name(self, timeline: RankTimeline) -> str:
        """Return the name of a rank, such as ``heat2d rank 3 (node7)``."""
        node = f" ({timeline.node})" if timeline.node else ""
        return f"{self.program_name(timeline.program)} rank {timeline.rank}{node}"

    def lane_name(self, timeline: RankTimeline, lane: Lane) -> str:
        """Return the name of a lane: ``thread 0``, or ``GPU device 0, context 1, stream 7 (thread 5)``."""
        stream = self._gpu_streams.get((timeline.program, timeline.rank, lane.thread))
        if stream is None:
            return f"{'GPU, ' if lane.is_gpu else ''}thread {lane.thread}"
        parts = (f"{name} {stream[name]}" for name in ("device", "context", "stream") if stream[name] >= 0)
        return f"GPU {', '.join(parts)} (thread {lane.thread})"
