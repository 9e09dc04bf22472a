"""Reads the JSON that rocprofv3 writes of a process: calls of HIP, HSA, ROCTX and the like, kernels, and
copies of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from chimbuko.capture.formats.readers.callrows import CallRows
from chimbuko.capture.formats.readers.events import Catalogue, Dropped
from chimbuko.capture.formats.readers.registry import ROCPROF_KEY, open_unpacked
from chimbuko.capture.formats.readers.rocprofcsv import MARKERS, copy_name
from chimbuko.core.arrays import Table

_KERNELS: Final = frozenset(("kernel_dispatch", "kernel_dispatches"))
_COPIES: Final = "memory_copy"
_NOT_UNDERSTOOD: Final = (LookupError, TypeError, ValueError, AttributeError)


def events(catalogue: Catalogue, source: int, path: Path) -> Iterator[Table]:
    """Yield the events of a file, as many at a time as are worth it."""
    with open_unpacked(path) as file:
        text = file.read()
    try:
        found = msgspec.json.decode(text)[ROCPROF_KEY]
    except (msgspec.MsgspecError, *_NOT_UNDERSTOOD) as error:
        catalogue.complaints.append(f"{path}: it is no JSON of rocprofv3 ({error})")
        return
    rows = CallRows(catalogue)
    for part in found if isinstance(found, list) else [found]:
        try:
            process = _Process(part, catalogue, rows)
        except _NOT_UNDERSTOOD:
            catalogue.losses[Dropped.NOT_UNDERSTOOD] += 1
            continue
        for group, records in part["buffer_records"].items():
            for record in records if isinstance(records, list) else []:
                try:
                    process.put(group, record)
                except _NOT_UNDERSTOOD:
                    catalogue.losses[Dropped.UNKNOWN_TYPE] += 1
                if rows.is_full:
                    yield rows.take()
    yield rows.take()


class _Process:
    """One process of a file, with the names that its records mention by number.

    Raises
    ------
    LookupError, TypeError, ValueError, AttributeError
        It has another layout.
    """

    def __init__(self, part: dict[str, Any], catalogue: Catalogue, rows: CallRows) -> None:
        self._catalogue = catalogue
        self._rows = rows
        strings = part["strings"]
        self._kinds = strings["buffer_records"]
        self._markers = {one["key"]: str(one["value"]) for one in strings.get("marker_api", ())}
        self._kernels = {
            one.get("kernel_id", number): one for number, one in enumerate(part.get("kernel_symbols", ()))
        }
        self._pid = int(part["metadata"]["pid"])
        self._process = catalogue.process(("rocprofv3", str(self._pid)))
        part["buffer_records"].items()

    def put(self, group: str, record: dict[str, Any]) -> None:
        """Put a record among the rows.

        Raises
        ------
        LookupError, TypeError, ValueError, AttributeError
            It is no call.
        """
        times_ns = int(record["start_timestamp"]), int(record["end_timestamp"])
        correlation = int(record["correlation_id"]["internal"])
        if group in _KERNELS:
            info = record["dispatch_info"]
            symbol = self._kernels[info["kernel_id"]]
            name = str(symbol.get("formatted_kernel_name") or symbol["kernel_name"])
            stream = record.get("stream_id") or info["queue_id"]
            track = self._rows.gpu_track(self._process, info["agent_id"]["handle"], stream["handle"])
            self._rows.put(*times_ns, track, name, correlation)
            return
        kind = self._kinds[record["kind"]]
        name = str(kind["operations"][record["operation"]])
        if group == _COPIES:
            track = self._rows.gpu_track(self._process, record["dst_agent_id"]["handle"], "copies")
            self._rows.put(*times_ns, track, copy_name(name), correlation)
            return
        is_marker = str(kind["kind"]).startswith(MARKERS)
        thread = int(record["thread_id"])
        track = self._catalogue.track(self._process, thread)
        self._catalogue.tracks[track].is_main |= thread == self._pid
        name = self._markers.get(correlation, name) if is_marker else name
        self._rows.put(*times_ns, track, name, 0 if is_marker else correlation)
