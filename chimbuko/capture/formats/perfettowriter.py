"""Writes Perfetto's traces: packets of track events, times in ns."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import IO, Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from chimbuko.capture.formats.moments import MAIN_THREAD, Edge, Moment, Value
from chimbuko.capture.formats.perfettofile import PerfettoFile
from chimbuko.core.traceschema import StreamNames

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
        """What follows is of this rank."""
        self._threads.clear()
        self._counters.clear()
        self._process = rank + 1
        descriptor = self._file.descriptor("", None)
        descriptor.process.pid = self._process
        descriptor.process.process_name = name
        self._process_track = self._file.write_descriptor(descriptor)

    def write(self, moments: Iterable[Moment], names: StreamNames) -> None:
        """The next events of the rank."""
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
        """It needs no end."""

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
