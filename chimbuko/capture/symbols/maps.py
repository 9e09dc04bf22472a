"""Memory mappings of a process."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAPPED_FILE = "Mapped File"
"""Begin of the metadata keys under which the recorder keeps the lines of ``/proc/PID/maps`` that it needs."""

_LINE = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ (?P<offset>[0-9a-f]+) \S+ \d+ +(?P<path>/.*?)"
    r"(?P<deleted> \(deleted\))?"
)


@dataclass(frozen=True)
class Mapping:
    """Part of a file in the memory of a process."""

    start: int
    end: int
    offset: int
    """Offset in the file at which the mapping begins."""
    path: str
    is_deleted: bool
    """Whether the file has been removed or replaced since."""

    def file_offset(self, address: int) -> int:
        """Return the offset in the file of an address in this mapping."""
        return address - self.start + self.offset


def parse_maps(text: str) -> list[Mapping]:
    """Return the mapped files in a text of ``/proc/PID/maps``; other lines are ignored."""
    return [
        Mapping(
            start=int(found["start"], 16),
            end=int(found["end"], 16),
            offset=int(found["offset"], 16),
            path=found["path"].replace("\\012", "\n"),
            is_deleted=found["deleted"] is not None,
        )
        for line in text.split("\n")
        if (found := _LINE.fullmatch(line))
    ]


def mapping_at(mappings: list[Mapping], address: int) -> Mapping | None:
    """Return the mapping that contains an address."""
    return next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None)
