"""Rows of whole calls with the correlation ids by which calls on a GPU lead to those that launched them."""

from __future__ import annotations

from typing import Final

from chimbuko.capture.formats.readers.events import Catalogue, Dropped, Kind, Row, TrackKind, table_of
from chimbuko.capture.formats.readers.kineto import CORRELATION_ID
from chimbuko.core.arrays import Table

ROWS_AT_ONCE: Final = 200_000
MOST_NS: Final = 1 << 62
MOST_INSIDE_NS: Final = 1000
"""Longest time from the beginning of a call to its correlation id."""


class CallRows:
    """Rows of the calls of one file."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._correlation = catalogue.name(CORRELATION_ID)
        self._rows: list[Row] = []

    def gpu_track(self, process: int, device: object, stream: object) -> int:
        """Return the track of a stream of a GPU."""
        track = self._catalogue.track(process, ("GPU", device, stream), TrackKind.GPU)
        self._catalogue.tracks[track].about |= {"CUDA Device": str(device), "CUDA Stream": str(stream)}
        return track

    def put(self, begin_ns: int, end_ns: int, track: int, name: str, correlation: int = 0) -> None:
        """Add a call; one without a time, or that ends before it begins, is counted and left out.

        Parameters
        ----------
        correlation
            Id that a launch shares with what it launched; 0 for none.
        """
        process = self._catalogue.tracks[track].process
        if not (0 < begin_ns < MOST_NS and 0 < end_ns < MOST_NS):
            self._catalogue.lose_calls(Dropped.NO_TIME, process)
        elif end_ns < begin_ns:
            self._catalogue.lose_calls(Dropped.NEGATIVE, process)
        else:
            duration_ns = end_ns - begin_ns
            self._rows.append((begin_ns, duration_ns, 0, track, self._catalogue.name(name), Kind.CALL))
            if 0 < correlation < MOST_NS:
                inside_ns = begin_ns + min(duration_ns // 2, MOST_INSIDE_NS)
                self._rows.append((inside_ns, correlation, 0, track, self._correlation, Kind.COUNTER))

    @property
    def is_full(self) -> bool:
        """Whether so many rows wait that they are best taken."""
        return len(self._rows) >= ROWS_AT_ONCE

    def take(self) -> Table:
        """Return the rows that wait."""
        rows, self._rows = self._rows, []
        return table_of(rows)
