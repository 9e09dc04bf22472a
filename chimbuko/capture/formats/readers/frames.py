"""Events out of pandas frames: a row for each call, or for each beginning and end as Pipit has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chimbuko.capture.formats.readers.events import EVENT, Catalogue, Dropped, Kind
from chimbuko.core.arrays import Int64Array, Table
from chimbuko.core.errors import TraceFormatError

if TYPE_CHECKING:
    import pandas

NS_PER_US: Final = 1000
MOST_NS: Final = 1 << 62
CALLS: Final = ("function", "begin_us", "end_us")
"""Columns of a frame of calls; ``rank`` and ``thread`` may be beside them."""
EDGES: Final = ("Timestamp (ns)", "Event Type", "Name")
"""Columns of a frame of Pipit; ``Process`` and ``Thread`` may be beside them."""


def events_of(frame: pandas.DataFrame, catalogue: Catalogue) -> Table:
    """Return all events of a frame, in its order.

    Raises
    ------
    TraceFormatError
        It lacks a column, or holds what is no time or number.
    """
    if set(CALLS) <= set(frame.columns):
        begin_ns, end_ns = (_times(frame, name, NS_PER_US) for name in CALLS[1:])
        if (end_ns < begin_ns).any():
            raise TraceFormatError("the frame has calls that end before they begin")
        tracks = _tracks(frame, "rank", "thread", catalogue)
        return _table(begin_ns, end_ns - begin_ns, tracks, _names(frame["function"], catalogue), Kind.CALL)
    if set(EDGES) <= set(frame.columns):
        types = frame["Event Type"]
        instants = int((types == "Instant").sum())
        frame = frame[types.isin(["Enter", "Leave"])]
        others = len(types) - len(frame) - instants
        lost = {Dropped.INSTANTS: instants, Dropped.UNKNOWN_TYPE: others}
        catalogue.losses.update({kind: number for kind, number in lost.items() if number})
        kinds = np.where(frame["Event Type"].to_numpy() == "Enter", int(Kind.BEGIN), int(Kind.END))
        tracks = _tracks(frame, "Process", "Thread", catalogue)
        times_ns = _times(frame, "Timestamp (ns)", 1)
        return _table(times_ns, np.zeros_like(times_ns), tracks, _names(frame["Name"], catalogue), kinds)
    raise TraceFormatError(
        f"the frame has the columns {', '.join(map(str, frame.columns))}; needed are {', '.join(CALLS)} and "
        f"perhaps rank and thread, or those of Pipit: {', '.join(EDGES)}"
    )


def _table(times_ns: Int64Array, values: Int64Array, tracks: Any, names: Any, kinds: Any) -> Table:
    events = np.zeros(len(times_ns), EVENT)
    events["time_ns"], events["value"] = times_ns, values
    events["track"], events["name"], events["kind"] = tracks, names, kinds
    return events


def _times(frame: pandas.DataFrame, column: str, unit_ns: int) -> Int64Array:
    values = frame[column].to_numpy()
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise TraceFormatError(f"column {column} of the frame holds what is no number")
    if len(values) and np.abs(values).max() >= MOST_NS / unit_ns:
        raise TraceFormatError(f"column {column} of the frame holds what is no time")
    # A product of a time since 1970 has no whole ns any more.
    whole = values.astype(np.int64)
    rest = np.round((values - whole) * unit_ns).astype(np.int64)
    return whole * unit_ns + rest


def _names(column: pandas.Series[Any], catalogue: Catalogue) -> Int64Array:
    texts, numbers = np.unique(column.astype(str).to_numpy(dtype=object), return_inverse=True)
    known = np.array([catalogue.name(text) for text in texts.tolist()], np.int64)
    return known[numbers]


def _tracks(frame: pandas.DataFrame, process: str, thread: str, catalogue: Catalogue) -> Int64Array:
    """Tracks of rows; a process is the rank of its number."""
    zeros = np.zeros(len(frame), np.int64)
    columns = []
    for name in (process, thread):
        values = frame[name].to_numpy() if name in frame.columns else zeros
        if values.dtype.kind not in "iu":
            raise TraceFormatError(f"column {name} of the frame holds what is no whole number")
        columns.append(values.astype(np.int64))
    pairs, rows = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    tracks = []
    for rank, number in pairs.tolist():
        owner = catalogue.process(rank)
        catalogue.processes[owner].rank = rank
        tracks.append(catalogue.track(owner, number))
        catalogue.tracks[tracks[-1]].is_main = number == 0
    return np.array(tracks, np.int64)[rows.ravel()]
