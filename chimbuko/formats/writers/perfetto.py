"""Writes Perfetto's traces: packets of track events, times in ns."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import IO, Any, Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from chimbuko.formats.writers.moments import MAIN_THREAD, Edge, Moment, Value
from chimbuko.trace.schema import StreamNames

NS_PER_US: Final = 1000
SEQUENCE: Final = 1
FIRST_THREAD: Final = 1_000_000


class Writer:
    """Writes one file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._functions: dict[str, int] = {}
        self._tracks: dict[tuple[int, int, str], int] = {}
        self._is_begun = False

    def begin_rank(self, rank: int, name: str) -> None:
        """What follows is of this rank."""
        self._process = rank + 1
        packet = self._packet()
        packet.track_descriptor.uuid = self._process_track = self._new_track(MAIN_THREAD, "process")
        packet.track_descriptor.process.pid = self._process
        packet.track_descriptor.process.process_name = name
        self._builder.write_packet(packet)

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """The next events of the rank."""
        for moment in moments:
            thread = self._thread_track(moment.thread)
            if isinstance(moment, Edge):
                kind = TrackEvent.TYPE_SLICE_BEGIN if moment.is_begin else TrackEvent.TYPE_SLICE_END
                packet = self._event(kind, thread, moment.time_us)
                if moment.is_begin:
                    self._name(packet, moment.function)
            elif isinstance(moment, Value):
                track = self._counter_track(moment.thread, moment.counter, thread)
                packet = self._event(TrackEvent.TYPE_COUNTER, track, moment.time_us)
                packet.track_event.counter_value = moment.value & (1 << 63) - 1
            else:
                packet = self._event(TrackEvent.TYPE_INSTANT, thread, moment.time_us)
                self._name(packet, f"tag {moment.tag}")
                text = moment.flow.encode()
                flow = zlib.crc32(text) << 32 | zlib.adler32(text)
                ids = (
                    packet.track_event.flow_ids if moment.is_send else packet.track_event.terminating_flow_ids
                )
                ids.append(flow)
            self._builder.write_packet(packet)

    def close(self) -> None:
        """It needs no end."""

    def _packet(self) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        if not self._is_begun:
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._is_begun = True
        return packet

    def _event(self, kind: int, track: int, time_us: int) -> Any:
        packet = self._packet()
        packet.timestamp = time_us * NS_PER_US
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _name(self, packet: Any, name: str) -> None:
        number = self._functions.get(name)
        if number is None:
            number = self._functions[name] = len(self._functions) + 1
            packet.interned_data.event_names.add(iid=number, name=name)
        packet.track_event.name_iid = number

    def _new_track(self, thread: int, what: str) -> int:
        return self._tracks.setdefault((self._process, thread, what), len(self._tracks) + 1)

    def _thread_track(self, thread: int) -> int:
        key = self._process, thread, "thread"
        if key not in self._tracks:
            packet = self._packet()
            packet.track_descriptor.uuid = self._new_track(thread, "thread")
            packet.track_descriptor.parent_uuid = self._process_track
            packet.track_descriptor.thread.pid = self._process
            tid = self._process if thread == MAIN_THREAD else FIRST_THREAD + thread
            packet.track_descriptor.thread.tid = tid
            self._builder.write_packet(packet)
        return self._tracks[key]

    def _counter_track(self, thread: int, counter: str, parent: int) -> int:
        key = self._process, thread, f"counter {counter}"
        if key not in self._tracks:
            packet = self._packet()
            packet.track_descriptor.uuid = self._new_track(thread, f"counter {counter}")
            packet.track_descriptor.parent_uuid = parent
            packet.track_descriptor.name = counter
            packet.track_descriptor.counter.SetInParent()
            self._builder.write_packet(packet)
        return self._tracks[key]
