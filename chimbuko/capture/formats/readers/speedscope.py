"""Reads profiles of speedscope that have events: beginnings and ends of frames, with times.

A profile is a thread. One of samples holds no calls; its samples are counted, and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from chimbuko.capture.formats.readers.events import Catalogue, Dropped, Kind, Row, table_of
from chimbuko.capture.formats.readers.registry import open_unpacked
from chimbuko.core.arrays import Table

MOST_NS: Final = 1 << 62
_UNITS_NS: Final = {"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}
_KINDS: Final = {"O": Kind.BEGIN, "C": Kind.END}


class _Frame(msgspec.Struct):
    name: str
    file: str | None = None
    line: int | None = None


class _Shared(msgspec.Struct):
    frames: list[_Frame]


class _Event(msgspec.Struct, gc=False):
    type: str
    frame: int
    at: float


class _Profile(msgspec.Struct):
    name: str = ""
    unit: str = ""
    events: list[_Event] = []
    samples: list[Any] = []


class _File(msgspec.Struct):
    shared: _Shared
    profiles: list[_Profile]


_DECODER: Final = msgspec.json.Decoder(_File)


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a file, a profile at a time."""
    with open_unpacked(path) as file:
        text = file.read()
    try:
        found = _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        catalogue.complaints.append(f"{path}: it is no profile of speedscope ({error})")
        return
    names = [catalogue.name(_function(frame)) for frame in found.shared.frames]
    process = catalogue.process((source, "speedscope"))
    for number, profile in enumerate(found.profiles):
        if profile.samples:
            catalogue.losses[Dropped.SAMPLES] += len(profile.samples)
        track = catalogue.track(process, number)
        catalogue.tracks[track].name = profile.name
        catalogue.tracks[track].is_main = number == 0
        rows = (_row(event, profile.unit, track, names, catalogue) for event in profile.events)
        yield table_of([row for row in rows if row is not None])


def _row(event: _Event, unit: str, track: int, names: list[int], catalogue: Catalogue) -> Row | None:
    """Return an event as a row; None, and counted, where it is none."""
    kind = _KINDS.get(event.type)
    if kind is None or not 0 <= event.frame < len(names):
        catalogue.losses[Dropped.UNKNOWN_TYPE] += 1
        return None
    # Weights that are no times have other units, or none.
    time_ns = event.at * _UNITS_NS.get(unit, MOST_NS)
    if not 0 <= time_ns < MOST_NS:
        catalogue.losses[Dropped.NO_TIME] += 1
        return None
    return round(time_ns), 0, 0, track, names[event.frame], kind


def _function(frame: _Frame) -> str:
    return f"{frame.name} [{{{frame.file}}} {{{frame.line or 0},0}}]" if frame.file else frame.name
