"""What is mapped where in a process."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAPPED_FILE = "Mapped File"
"""Begins keys of our recorder's metadata: lines of ``/proc/PID/maps`` with recorded functions."""

_LINE = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ (?P<offset>[0-9a-f]+) \S+ \d+ +(?P<path>/.*?)"
    r"(?P<deleted> \(deleted\))?"
)


@dataclass(frozen=True)
class Mapping:
    """A part of a file in a process's memory."""

    start: int
    end: int
    offset: int
    """Where in the file it begins."""
    path: str
    is_deleted: bool
    """The file has been removed, or replaced, since."""

    def file_offset(self, address: int) -> int:
        """Where in the file an address of this mapping lies."""
        return address - self.start + self.offset


def parse_maps(text: str) -> list[Mapping]:
    """The mapped files among the lines of ``/proc/PID/maps``; what is not such a line is passed over."""
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
    """The mapping that holds an address."""
    return next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None)
