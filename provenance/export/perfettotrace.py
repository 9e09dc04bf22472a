"""Writes a run as a trace for Perfetto: packets of track events, as its protocol buffers define them."""

from __future__ import annotations

import itertools
from typing import IO

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    TracePacket,
    TrackEvent,
)

from chimbuko.capture.formats.perfettowriter import NS_PER_US, PerfettoFile
from chimbuko.provenance.export.incidenttracks import (
    Arrow,
    Span,
    calls_of_incidents,
    process_name,
    tracks_and_arrows,
)
from chimbuko.provenance.export.source import ExportSource
from chimbuko.provenance.timeline.ranktimeline import (
    NODE,
    Interval,
    Lane,
    MessagePoint,
    RankTimeline,
    Slice,
    edges,
    matched,
    message_arguments,
    slice_arguments,
)

ThreadKey = tuple[int, int, int]
"""Program, rank and thread."""


def write_perfetto(source: ExportSource, file: IO[bytes]) -> None:
    """Write a process of each rank, and a track of each of its threads, GPU streams and counters.

    A rank's abnormal calls also stand on a track of their own, and a program's incidents on tracks beside the
    ranks. Messages are instants, and flows where both ends were recorded; so are delays and the calls that
    waited for them, and the launch of a GPU kernel is a flow. Times are those of the trace, in ns since the
    Unix epoch. Written rank by rank; of all ranks only the messages and the times of calls in incidents are
    kept in memory.
    """
    _Trace(source, file).write()


class _Trace:
    """A trace on its way into a file."""

    def __init__(self, source: ExportSource, file: IO[bytes]) -> None:
        self._source = source
        self._file = PerfettoFile(file)
        self._flows = itertools.count(1)
        self._messages: list[MessagePoint] = []
        self._tracks: dict[ThreadKey, int] = {}
        self._intervals: dict[str, Interval] = {}
        self._places: dict[str, int] = {}
        """Track of each call in an incident, by id."""

    def write(self) -> None:
        self._write_clocks()
        for timeline in self._source.timelines():
            self._write_rank(timeline)
        self._write_messages()
        self._write_incidents()

    def _write_clocks(self) -> None:
        packet = self._file.packet()
        for clock in (BuiltinClock.BUILTIN_CLOCK_BOOTTIME, BuiltinClock.BUILTIN_CLOCK_REALTIME):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=self._source.start_us() * NS_PER_US)
        self._file.write(packet)

    def _write_rank(self, timeline: RankTimeline) -> None:
        process = self._write_process(self._source.rank_name(timeline))
        flows = self._launch_flows(timeline)
        for lane in timeline.lanes:
            track = self._write_thread(timeline, lane, process)
            self._tracks[timeline.program, timeline.rank, lane.thread] = track
            for each, is_begin in edges(lane.slices):
                self._write_edge(each, is_begin, track, lane.is_gpu, flows.get(each.id, []))
        self._write_anomalies(timeline, process)
        for counter in timeline.counters:
            thread = (timeline.program, timeline.rank, counter.thread)
            parent = process if counter.thread == NODE else self._tracks[thread]
            descriptor = self._file.descriptor(counter.name, parent)
            descriptor.counter.SetInParent()
            self._file.write_descriptor(descriptor)
            for time_us, value in counter.values:
                packet = self._event(TrackEvent.TYPE_COUNTER, descriptor.uuid, time_us)
                packet.track_event.double_counter_value = value
                self._file.write(packet)
        self._messages += timeline.messages
        for call_id, of_lane, interval in calls_of_incidents(timeline):
            self._intervals[call_id] = interval
            self._places[call_id] = self._tracks[timeline.program, timeline.rank, of_lane]

    def _write_process(self, name: str) -> int:
        descriptor = self._file.descriptor("", None)
        descriptor.process.pid = descriptor.uuid
        descriptor.process.process_name = name
        return self._file.write_descriptor(descriptor)

    def _write_thread(self, timeline: RankTimeline, lane: Lane, process: int) -> int:
        name = self._source.lane_name(timeline, lane)
        descriptor = self._file.descriptor(name if lane.is_gpu else "", process)
        if not lane.is_gpu:
            descriptor.thread.pid = process
            descriptor.thread.tid = descriptor.uuid
            descriptor.thread.thread_name = name
        return self._file.write_descriptor(descriptor)

    def _launch_flows(self, timeline: RankTimeline) -> dict[str, list[int]]:
        """Return the flows that begin or end at each call, by its id."""
        flows: dict[str, list[int]] = {}
        for ends in timeline.launches:
            number = next(self._flows)
            for call in ends:
                flows.setdefault(call, []).append(number)
        return flows

    def _write_edge(self, call: Slice, is_begin: bool, track: int, is_gpu: bool, flows: list[int]) -> None:
        if not is_begin:
            self._file.write(self._event(TrackEvent.TYPE_SLICE_END, track, call.end_us))
            return
        packet = self._event(TrackEvent.TYPE_SLICE_BEGIN, track, call.begin_us)
        self._file.name(packet, call.function)
        packet.track_event.categories.append(call.category)
        if is_gpu:
            packet.track_event.categories.append("gpu")
        packet.track_event.flow_ids.extend(flows)
        self._file.annotate(packet, slice_arguments(call))
        self._file.write(packet)

    def _write_anomalies(self, timeline: RankTimeline, process: int) -> None:
        anomalies = timeline.anomalies()
        if not anomalies:
            return
        descriptor = self._file.descriptor("anomalies", process)
        self._file.write_descriptor(descriptor)
        for call in anomalies:
            packet = self._event(TrackEvent.TYPE_INSTANT, descriptor.uuid, call.begin_us)
            self._file.name(packet, call.function)
            packet.track_event.categories.append("anomaly")
            self._file.annotate(packet, slice_arguments(call))
            self._file.write(packet)

    def _write_messages(self) -> None:
        flows: dict[int, int] = {}
        for pair in matched(self._messages, self._source.run.config.period_us):
            number = next(self._flows)
            flows.update({id(end): number for end in pair})
        for point in self._messages:
            message = point.message
            track = self._tracks[point.program, point.rank, point.thread]
            packet = self._event(TrackEvent.TYPE_INSTANT, track, message.time_us)
            self._file.name(packet, message.kind)
            packet.track_event.categories.append("message")
            if id(point) in flows:
                packet.track_event.flow_ids.append(flows[id(point)])
            self._file.annotate(packet, message_arguments(message))
            self._file.write(packet)

    def _write_incidents(self) -> None:
        tracks, arrows = tracks_and_arrows(self._source, self._intervals)
        for program, of_program in itertools.groupby(tracks, key=lambda track: track.program):
            process = self._write_process(process_name(self._source, program))
            for track in of_program:
                descriptor = self._file.descriptor(track.name, process)
                self._file.write_descriptor(descriptor)
                for span in track.spans:
                    self._write_span(span, descriptor.uuid)
        for arrow in arrows:
            number = next(self._flows)
            # A flow leads from the earlier of two, and calls that wait often begin before what they wait for.
            self._write_end("held up others", arrow.from_us, arrow.from_call, number, arrow)
            self._write_end("waited", arrow.to_us, arrow.to_call, number, arrow)

    def _write_span(self, span: Span, track: int) -> None:
        packet = self._event(TrackEvent.TYPE_SLICE_BEGIN, track, span.begin_us)
        self._file.name(packet, span.name)
        packet.track_event.categories.append(span.category)
        self._file.annotate(packet, span.arguments)
        self._file.write(packet)
        self._file.write(self._event(TrackEvent.TYPE_SLICE_END, track, span.end_us))

    def _write_end(self, name: str, time_us: int, call: str, flow: int, arrow: Arrow) -> None:
        packet = self._event(TrackEvent.TYPE_INSTANT, self._places[call], time_us)
        self._file.name(packet, name)
        packet.track_event.categories.append("incident")
        packet.track_event.flow_ids.append(flow)
        self._file.annotate(
            packet, {"incident_id": arrow.incident, "call_id": call, "lost_us": arrow.lost_us}
        )
        self._file.write(packet)

    def _event(self, kind: TrackEvent.Type, track: int, time_us: int) -> TracePacket:
        packet = self._file.event(kind, track, time_us)
        packet.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return packet
