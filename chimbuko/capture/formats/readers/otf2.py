"""Reads traces in the Open Trace Format 2, as Score-P and others write them, by the Python module ``otf2``.

Locations of a group are threads of a process. Regions are calls; messages and collective operations of MPI
keep their ranks and communicators; metrics are counters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import otf2
from _otf2 import Error as LibraryError
from otf2 import events as kinds

from chimbuko.capture.formats.readers.chrome import rank_in
from chimbuko.capture.formats.readers.events import Catalogue, Dropped, Kind, Row, TrackKind, table_of
from chimbuko.core.arrays import Table

ROWS_AT_ONCE: Final = 200_000
MOST_NS: Final = 1 << 62
NS_PER_S: Final = 10**9
_DAMAGES: Final = (
    *(otf2.error.Error, LibraryError, RuntimeError, ValueError, OSError),
    *(LookupError, AttributeError, TypeError, ArithmeticError),
)
"""Errors by which damaged files end; where definitions are missing, the library gives None in their place."""


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a trace, of which the anchor file is given; before an error all that came before
    it.
    """
    complaint = ""
    rows: list[Row] = []
    try:
        with _quiet(), otf2.reader.open(str(path)) as trace:
            locations = _Locations(catalogue, source, trace)
            missing = sum(location.number_of_events for location in trace.definitions.locations)
            for location, event in trace.events:
                missing -= 1
                locations.take(location, event, rows)
                if len(rows) >= ROWS_AT_ONCE:
                    yield table_of(rows)
                    rows = []
            locations.finish()
            # Where a file is cut off the library may take what it finds in memory behind it for its end.
            if missing > 0:
                complaint = f"{missing:,} of its events are missing"
    except _DAMAGES as error:
        complaint = " ".join(str(error).split())[:100] or type(error).__name__
    yield table_of(rows)
    if complaint:
        catalogue.complaints.append(f"{path}: cannot be read ({complaint}); what came before is taken")


@contextmanager
def _quiet() -> Iterator[None]:
    """Have the library's own lines about what it stumbles over left out: ours says it in one."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


class _Locations:
    """Processes and threads of one trace."""

    def __init__(self, catalogue: Catalogue, source: int, trace: Any) -> None:
        self._catalogue = catalogue
        self._source = source
        self._start = trace.definitions.clock_properties.global_offset
        self._resolution = trace.timer_resolution
        self._tracks: dict[int, int] = {}
        self._entered_ns: dict[int, int] = {}
        """Collective operations that go on, by track."""
        for location in trace.definitions.locations:
            self._enter(location)

    def take(self, location: Any, event: Any, rows: list[Row]) -> None:
        """Take one event."""
        time_ns = (event.time - self._start) * NS_PER_S // self._resolution
        if not 0 <= time_ns < MOST_NS:
            self._catalogue.losses[Dropped.NO_TIME] += 1
            return
        track = self._tracks[location._ref]
        if isinstance(event, kinds.Enter | kinds.Leave):
            kind = Kind.BEGIN if isinstance(event, kinds.Enter) else Kind.END
            rows.append((time_ns, 0, 0, track, self._catalogue.name(event.region.name), kind))
        elif isinstance(event, kinds.MpiSend | kinds.MpiIsend):
            self._message(time_ns, track, event, event.receiver, Kind.SEND, rows)
        elif isinstance(event, kinds.MpiRecv | kinds.MpiIrecv):
            self._message(time_ns, track, event, event.sender, Kind.RECEIVE, rows)
        elif isinstance(event, kinds.MpiCollectiveBegin):
            if track in self._entered_ns:
                self._catalogue.losses[Dropped.OPEN_OPERATIONS] += 1
            self._entered_ns[track] = time_ns
        elif isinstance(event, kinds.MpiCollectiveEnd):
            # Its beginning does not say of which communicator it is.
            time_ns = self._entered_ns.pop(track, time_ns)
            of = event.communicator._ref + 1
            rows.append((time_ns, event.size_sent + event.size_received, of, track, 0, Kind.COLLECTIVE))
        elif isinstance(event, kinds.Metric):
            for member, value in zip(event.metric.members, event.values, strict=False):
                if 0 <= value < MOST_NS:
                    name = self._catalogue.name(member.name)
                    rows.append((time_ns, int(value), 0, track, name, Kind.COUNTER))
                else:
                    self._catalogue.losses[Dropped.NO_VALUE] += 1
        else:
            # Forks, parameters, requests: they have no duration of their own.
            self._catalogue.losses[Dropped.OTHER_RECORDS] += 1

    def finish(self) -> None:
        """Count what has no end."""
        if self._entered_ns:
            self._catalogue.losses[Dropped.OPEN_OPERATIONS] += len(self._entered_ns)

    def _message(
        self, time_ns: int, track: int, event: Any, partner: int, kind: Kind, rows: list[Row]
    ) -> None:
        try:
            other = self._tracks[event.communicator.location(partner)._ref]
        except (LookupError, AttributeError, TypeError):
            self._catalogue.losses[Dropped.UNKNOWN_PARTNER] += 1
            return
        process = self._catalogue.tracks[other].process
        tag = self._catalogue.name(f"tag {event.msg_tag}")
        rows.append((time_ns, event.msg_length, process, track, tag, kind))

    def _enter(self, location: Any) -> None:
        group = location.group
        is_new = len(self._catalogue.processes)
        process = self._catalogue.process((self._source, group._ref))
        if process == is_new:
            about = self._catalogue.processes[process]
            about.name, about.rank = group.name, rank_in(group.name)
        is_gpu = location.type in (otf2.LocationType.GPU, otf2.LocationType.ACCELERATOR_STREAM)
        kind = TrackKind.GPU if is_gpu else TrackKind.THREAD
        track = self._catalogue.track(process, location._ref, kind)
        self._catalogue.tracks[track].name = location.name
        self._tracks[location._ref] = track
