"""A file in Perfetto's format on its way: packets of track events, as its protocol buffers define them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import IO, Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

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
        """Of processes and threads, too: so no two are the same."""
        self._names: dict[str, int] = {}
        self._argument_names: dict[str, int] = {}
        self._is_begun = False

    def packet(self) -> TracePacket:
        """A new packet; the first one says that no names are known."""
        packet: TracePacket = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        if not self._is_begun:
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._is_begun = True
        return packet

    def write(self, packet: TracePacket) -> None:
        """What is in it stands in the file from now on."""
        self._builder.write_packet(packet)

    def event(self, kind: TrackEvent.Type, track: int, time_us: int) -> TracePacket:
        """A new packet with an event."""
        packet = self.packet()
        packet.timestamp = time_us * NS_PER_US
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def descriptor(self, name: str, parent: int | None) -> TrackDescriptor:
        """A new track, with a number of its own, to be completed and written; its name may be empty."""
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
