"""Writer of Perfetto's traces: packets of track events as its protocol buffers define them, times in ns."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from chimbuko.capture.formats.moments import MAIN_THREAD, Edge, Moment, Value
from chimbuko.core.traceschema import StreamNames

SEQUENCE: Final = 1
"""All packets are of one sequence, in which times need not rise: its reader sorts them."""
NS_PER_US: Final = 1000

Argument = str | int | float | bool


class PerfettoFile:
    """Packets one after the other; whoever writes them decides what they mean.

    Names are written out once, and referred to by numbers: those of C++ are long.

    Parameters
    ----------
    file
        Gets the bytes; it stays open.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._tracks = itertools.count(1)
        """Identifiers of tracks, of processes and threads too, so that no two are the same."""
        self._names: dict[str, int] = {}
        self._argument_names: dict[str, int] = {}
        self._is_begun = False

    def packet(self) -> TracePacket:
        """Return a new packet; the first one says that no names are known."""
        packet: TracePacket = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        if not self._is_begun:
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._is_begun = True
        return packet

    def write(self, packet: TracePacket) -> None:
        """Write out what was added, so that it stands in the file from now on."""
        self._builder.write_packet(packet)

    def event(self, kind: TrackEvent.Type, track: int, time_us: int) -> TracePacket:
        """Return a new packet with an event."""
        packet = self.packet()
        packet.timestamp = time_us * NS_PER_US
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def descriptor(self, name: str, parent: int | None) -> TrackDescriptor:
        """Return a new track, with a number of its own, to be completed and written; its name may be
        empty.
        """
        descriptor = TrackDescriptor(uuid=next(self._tracks))
        if name:
            descriptor.name = name
        if parent is not None:
            descriptor.parent_uuid = parent
        return descriptor

    def write_descriptor(self, descriptor: TrackDescriptor) -> int:
        """Write it before the first event of the track, whose number is returned."""
        packet = self.packet()
        packet.track_descriptor.CopyFrom(descriptor)
        self.write(packet)
        return int(descriptor.uuid)

    def name(self, packet: TracePacket, name: str) -> None:
        """Give an event a name."""
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self._names) + 1
            packet.interned_data.event_names.add(iid=number, name=name)
        packet.track_event.name_iid = number

    def annotate(self, packet: TracePacket, arguments: Mapping[str, Argument]) -> None:
        """Give an event arguments."""
        for name, value in arguments.items():
            number = self._argument_names.get(name)
            if number is None:
                number = self._argument_names[name] = len(self._argument_names) + 1
                packet.interned_data.debug_annotation_names.add(iid=number, name=name)
            annotation = packet.track_event.debug_annotations.add(name_iid=number)
            match value:
                case bool():
                    annotation.bool_value = value
                case int():
                    annotation.int_value = value
                case float():
                    annotation.double_value = value
                case str():
                    annotation.string_value = value


FIRST_THREAD: Final = 1_000_000


class Writer:
    """Writes one file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = PerfettoFile(file)
        self._threads: dict[int, int] = {}
        """Tracks of the rank's threads."""
        self._counters: dict[tuple[int, str], int] = {}
        """Tracks of the rank's counters, by thread and name."""

    def begin_rank(self, rank: int, name: str) -> None:
        """Begin the rank that everything that follows belongs to."""
        self._threads.clear()
        self._counters.clear()
        self._process = rank + 1
        descriptor = self._file.descriptor("", None)
        descriptor.process.pid = self._process
        descriptor.process.process_name = name
        self._process_track = self._file.write_descriptor(descriptor)

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """Write the next events of the rank."""
        for moment in moments:
            thread = self._thread_track(moment.thread)
            if isinstance(moment, Edge):
                kind = TrackEvent.TYPE_SLICE_BEGIN if moment.is_begin else TrackEvent.TYPE_SLICE_END
                packet = self._file.event(kind, thread, moment.time_us)
                if moment.is_begin:
                    self._file.name(packet, moment.function)
            elif isinstance(moment, Value):
                track = self._counter_track(moment.thread, moment.counter, thread)
                packet = self._file.event(TrackEvent.TYPE_COUNTER, track, moment.time_us)
                packet.track_event.counter_value = moment.value & (1 << 63) - 1
            else:
                packet = self._file.event(TrackEvent.TYPE_INSTANT, thread, moment.time_us)
                self._file.name(packet, f"tag {moment.tag}")
                text = moment.flow.encode()
                flow = zlib.crc32(text) << 32 | zlib.adler32(text)
                ids = (
                    packet.track_event.flow_ids if moment.is_send else packet.track_event.terminating_flow_ids
                )
                ids.append(flow)
            self._file.write(packet)

    def close(self) -> None:
        """Do nothing, as this format needs no end."""

    def _thread_track(self, thread: int) -> int:
        if thread not in self._threads:
            descriptor = self._file.descriptor("", self._process_track)
            descriptor.thread.pid = self._process
            descriptor.thread.tid = self._process if thread == MAIN_THREAD else FIRST_THREAD + thread
            self._threads[thread] = self._file.write_descriptor(descriptor)
        return self._threads[thread]

    def _counter_track(self, thread: int, counter: str, parent: int) -> int:
        key = thread, counter
        if key not in self._counters:
            descriptor = self._file.descriptor(counter, parent)
            descriptor.counter.SetInParent()
            self._counters[key] = self._file.write_descriptor(descriptor)
        return self._counters[key]
