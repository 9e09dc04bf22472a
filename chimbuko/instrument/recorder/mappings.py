"""Mapped binaries of one process, by which the addresses of its functions get their names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chimbuko.capture.symbols.maps import Mapping, mapping_at, parse_maps
from chimbuko.instrument.recorder.ring import ProcessFile


class Mappings:
    """Mapped parts of binaries in the memory of one process, as the library noted them and as they are."""

    def __init__(self, process: ProcessFile) -> None:
        self._process = process
        self._known: list[Mapping] = []
        self._used: list[Mapping] = []
        self._taken = 0

    def path_of(self, address: int) -> str:
        """Return the path of the binary at an address; empty if none is known."""
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
        """Return number and line (as in ``/proc/PID/maps``) of each mapping used since the last call."""
        first, self._taken = self._taken, len(self._used)
        return [(number, _line(self._used[number])) for number in range(first, self._taken)]

    def _look(self) -> None:
        self._known = parse_maps(self._process.text("maps"))
        # Libraries that were loaded later are in the current mappings only.
        with suppress(OSError):
            maps = Path("/proc", str(self._process.number("pid")), "maps")
            self._known += parse_maps(maps.read_text(errors="surrogateescape"))


def _line(mapping: Mapping) -> str:
    path = mapping.path.replace("\n", "\\012")
    deleted = " (deleted)" if mapping.is_deleted else ""
    return f"{mapping.start:x}-{mapping.end:x} r-xp {mapping.offset:x} 00:00 0 {path}{deleted}"
