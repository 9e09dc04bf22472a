"""Where the binaries of a recorded process lie, kept for when it has ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chimbuko.capture.symbols.maps import Mapping, mapping_at, parse_maps
from chimbuko.instrument.recorder.ring import ProcessFile


class Mappings:
    """Parts of binaries in the memory of one process, as the library has noted them and as they are now."""

    def __init__(self, process: ProcessFile) -> None:
        self._process = process
        self._known: list[Mapping] = []
        self._used: list[Mapping] = []
        self._taken = 0

    def path_of(self, address: int) -> str:
        """Binary that an address belongs to; empty where that is not known."""
        found = mapping_at(self._known, address)
        if found is None:
            self._look()
            found = mapping_at(self._known, address)
        if found is None:
            return ""
        if found not in self._used:
            self._used.append(found)
        return found.path

    def take_new(self) -> list[tuple[int, str]]:
        """Number and line, as in ``/proc/PID/maps``, of each that was asked for since the last time."""
        first, self._taken = self._taken, len(self._used)
        return [(number, _line(self._used[number])) for number in range(first, self._taken)]

    def _look(self) -> None:
        self._known = parse_maps(self._process.text("maps"))
        # What was loaded later.
        with suppress(OSError):
            maps = Path("/proc", str(self._process.number("pid")), "maps")
            self._known += parse_maps(maps.read_text(errors="surrogateescape"))


def _line(mapping: Mapping) -> str:
    path = mapping.path.replace("\n", "\\012")
    deleted = " (deleted)" if mapping.is_deleted else ""
    return f"{mapping.start:x}-{mapping.end:x} r-xp {mapping.offset:x} 00:00 0 {path}{deleted}"
