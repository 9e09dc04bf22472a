"""Reads Perfetto's traces: packets of track events, as its protocol buffers define them.

A packet is field 1 of the message that a file is; packets are taken one by one, so that a file may be of any
size and lack its end. What is no track event (scheduling, memory dumps, samples) is counted and left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from chimbuko.capture.formats.readers.chrome import rank_in
from chimbuko.capture.formats.readers.events import (
    NO_NAME,
    Catalogue,
    Dropped,
    Kind,
    Row,
    TrackKind,
    table_of,
)
from chimbuko.capture.formats.readers.flows import Flows
from chimbuko.core.arrays import Table

MOST_PACKET_BYTES: Final = 64 << 20
MOST_NS: Final = 1 << 62
MOST_DEPTH: Final = 32
"""Most levels of tracks that lie in tracks."""
_PACKET_TAG: Final = b"\x0a"
_SEQUENCE_CLOCKS: Final = 64
"""Clocks from here on are of one sequence only."""


@dataclass
class _Clock:
    """A clock of a sequence."""

    unit_ns: int = 1
    is_incremental: bool = False
    now_ns: int = 0


@dataclass
class _Sequence:
    """State that the packets of one writer have agreed on."""

    names: dict[int, str] = field(default_factory=dict)
    default_track: int = 0
    default_clock: int = 0
    clocks: dict[int, _Clock] = field(default_factory=dict)


@dataclass
class _Track:
    """Track as a descriptor gives it."""

    parent: int = 0
    name: str = ""
    process: tuple[int, str] | None = None
    thread: tuple[int, int, str] | None = None
    """Process, thread and name."""
    is_counter: bool = False
    unit: int = 1
    is_gpu: bool = False


class Reader:
    """Reads one file.

    Parameters
    ----------
    catalogue
        Gets processes, threads and names.
    source
        Distinguishes the processes of this file from those of others.
    name
        Name of the file.
    """

    def __init__(self, catalogue: Catalogue, source: int, name: str) -> None:
        self.complaint = ""
        self._catalogue = catalogue
        self._source = source
        self._rest = b""
        self._at = 0
        self._sequences: dict[int, _Sequence] = {}
        self._tracks: dict[int, _Track] = {}
        self._numbers: dict[int, int] = {}
        self._counters: dict[int, int] = {}
        self._flows = Flows(catalogue.losses)
        self._rows: list[Row] = []

    def feed(self, data: bytes) -> Table:
        """Take in the next bytes; the events that are known now."""
        text, at = self._rest + data, 0
        while not self.complaint:
            packet = self._packet_at(text, at)
            if packet is None:
                break
            begin, at = packet
            self._take(text[begin:at])
        self._at += at
        self._rest = b"" if self.complaint else text[at:]
        rows, self._rows = self._rows, []
        return table_of(rows)

    def finish(self) -> Table:
        """Return the events that are left, as no more bytes will come."""
        self._flows.finish()
        if self._rest and not self.complaint:
            self.complaint = f"it ends within the packet that begins at byte {self._at:,}"
        return table_of([])

    def _packet_at(self, text: bytes, at: int) -> tuple[int, int] | None:
        """Begin and end of the packet there; None if it is not complete."""
        if at >= len(text):
            return None
        if text[at : at + 1] != _PACKET_TAG:
            self.complaint = f"at byte {self._at + at:,} there should be a packet"
            return None
        length, shift, begin = 0, 0, at + 1
        while begin < len(text) and shift < 64:
            byte = text[begin]
            begin += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if length > MOST_PACKET_BYTES:
                    self.complaint = f"the packet at byte {self._at + at:,} would have {length:,} bytes"
                    return None
                return (begin, begin + length) if begin + length <= len(text) else None
        return None

    def _take(self, text: bytes) -> None:
        try:
            packet = TracePacket.FromString(text)
        except DecodeError:
            self._catalogue.losses[Dropped.NOT_UNDERSTOOD] += 1
            return
        sequence = self._sequence(packet)
        if packet.HasField("clock_snapshot"):
            for clock in packet.clock_snapshot.clocks:
                if clock.clock_id >= _SEQUENCE_CLOCKS:
                    unit_ns = clock.unit_multiplier_ns or 1
                    sequence.clocks[clock.clock_id] = _Clock(
                        unit_ns, clock.is_incremental, clock.timestamp * unit_ns
                    )
        if packet.HasField("interned_data"):
            sequence.names |= {one.iid: _text(one.name) for one in packet.interned_data.event_names}
        if packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        elif packet.HasField("track_event"):
            self._event(packet, packet.track_event, sequence)
        elif packet.WhichOneof("data") not in (None, "clock_snapshot", "trace_config", "trace_uuid"):
            self._catalogue.losses[Dropped.NO_TRACK_EVENTS] += 1

    def _sequence(self, packet: Any) -> _Sequence:
        number = packet.trusted_packet_sequence_id
        is_cleared = packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        if number not in self._sequences or is_cleared or packet.incremental_state_cleared:
            self._sequences[number] = _Sequence()
        sequence = self._sequences[number]
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.default_clock = defaults.timestamp_clock_id
            sequence.default_track = defaults.track_event_defaults.track_uuid
        return sequence

    def _describe(self, descriptor: Any) -> None:
        track = self._tracks.setdefault(descriptor.uuid, _Track())
        track.parent = descriptor.parent_uuid or track.parent
        track.name = _text(descriptor.name or descriptor.static_name) or track.name
        if descriptor.HasField("process"):
            track.process = descriptor.process.pid, _text(descriptor.process.process_name)
        if descriptor.HasField("thread"):
            thread = descriptor.thread
            track.thread = thread.pid, thread.tid, _text(thread.thread_name)
        if descriptor.HasField("counter"):
            track.is_counter = True
            track.unit = descriptor.counter.unit_multiplier or 1
        track.is_gpu = track.name.startswith("GPU ")
        # What was said of it so far may have been less.
        self._numbers.pop(descriptor.uuid, None)
        self._counters.pop(descriptor.uuid, None)

    def _event(self, packet: Any, event: Any, sequence: _Sequence) -> None:
        time_ns = self._time_ns(packet, event, sequence)
        if time_ns is None:
            return
        uuid = event.track_uuid if event.HasField("track_uuid") else sequence.default_track
        if event.type == TrackEvent.TYPE_COUNTER:
            value = (
                event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            )
            self._counter(uuid, time_ns, value)
            return
        track = self._track(uuid)
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            self._rows.append((time_ns, 0, 0, track, self._name(event, sequence), Kind.BEGIN))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            self._rows.append((time_ns, 0, 0, track, NO_NAME, Kind.END))
        elif event.type != TrackEvent.TYPE_INSTANT:
            self._catalogue.losses[Dropped.UNKNOWN_TYPE] += 1
            return
        elif not (event.flow_ids or event.terminating_flow_ids):
            self._catalogue.losses[Dropped.INSTANTS] += 1
        for uuid_, value in zip(event.extra_counter_track_uuids, event.extra_counter_values, strict=False):
            self._counter(uuid_, time_ns, value)
        here = time_ns, track, self._catalogue.tracks[track].process
        tag = self._catalogue.name("flow")
        for identity in event.terminating_flow_ids:
            self._rows += self._flows.join(identity, here, tag, is_last=True)
        for identity in event.flow_ids:
            self._rows += self._flows.join(identity, here, tag, is_last=False)

    def _counter(self, uuid: int, time_ns: int, value: float) -> None:
        described = self._tracks.get(uuid, _Track())
        value *= described.unit
        if not 0 <= value < MOST_NS:
            self._catalogue.losses[Dropped.NO_VALUE] += 1
            return
        track = self._counters.get(uuid)
        if track is None:
            # A counter is of the thread or process that its track lies in.
            track = self._counters[uuid] = self._track(described.parent)
        name = self._catalogue.name(described.name)
        self._rows.append((time_ns, int(value), 0, track, name, Kind.COUNTER))

    def _name(self, event: Any, sequence: _Sequence) -> int:
        if event.HasField("name_iid"):
            return self._catalogue.name(sequence.names.get(event.name_iid, "(name not received)"))
        return self._catalogue.name(_text(event.name))

    def _time_ns(self, packet: Any, event: Any, sequence: _Sequence) -> int | None:
        clock_id = packet.timestamp_clock_id or sequence.default_clock
        clock = sequence.clocks.get(clock_id) if clock_id >= _SEQUENCE_CLOCKS else None
        if packet.HasField("timestamp"):
            time_ns = packet.timestamp * (clock.unit_ns if clock else 1)
            if clock is not None and clock.is_incremental:
                clock.now_ns += time_ns
                time_ns = clock.now_ns
        elif event.HasField("timestamp_absolute_us"):
            time_ns = event.timestamp_absolute_us * 1000
        else:
            time_ns = MOST_NS
        if 0 <= time_ns < MOST_NS:
            return int(time_ns)
        self._catalogue.losses[Dropped.NO_TIME] += 1
        return None

    def _track(self, uuid: int) -> int:
        """Return the number of the track in the catalogue."""
        number = self._numbers.get(uuid)
        if number is not None:
            return number
        described = self._tracks.get(uuid, _Track())
        process, is_main = self._process_of(described), False
        if described.thread is not None:
            pid, tid, name = described.thread
            is_main = pid == tid
            number = self._catalogue.track(process, ("thread", tid))
        else:
            name = described.name
            kind = TrackKind.GPU if described.is_gpu else TrackKind.THREAD
            number = self._catalogue.track(process, ("track", uuid), kind)
        track = self._catalogue.tracks[number]
        track.name, track.is_main = name or track.name, is_main
        self._numbers[uuid] = number
        return number

    def _process_of(self, track: _Track) -> int:
        """Return the number of the process that a track lies in."""
        pid, name = 0, ""
        above: _Track | None = track
        for _ in range(MOST_DEPTH):
            if above is None or above.process is not None:
                break
            if above.thread is not None:
                pid = above.thread[0]
            above = self._tracks.get(above.parent) if above.parent else None
        if above is not None and above.process is not None:
            pid, name = above.process
        number = self._catalogue.process((self._source, pid))
        process = self._catalogue.processes[number]
        process.name = process.name or name
        process.rank = rank_in(process.name) if process.rank is None else process.rank
        return number


def _text(value: str | bytes) -> str:
    """Return a text of a message; what is not in UTF-8 comes as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
