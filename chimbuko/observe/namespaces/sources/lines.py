"""Lines that programs in C write, as publications. No I/O.

Fields are separated by tabs. An update is a mode (``=`` or ``+``), a key, a type and a value; a line that
begins with ``!`` publishes those before it: namespace, rank, number of commits, and how many publications are
lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chimbuko.observe.namespaces.client.pending import Mode

_MOST_COMMITS = 1_000_000
_ESCAPED = re.compile(r"\\(.)")
_MEANINGS = {"t": "\t", "n": "\n"}
_MODES = {"=": Mode.OVERWRITE, "+": Mode.APPEND}
_TYPES: dict[str, Callable[[str], Any]] = {
    "d": float.fromhex,
    "i": int,
    "b": lambda text: text == "1",
    "s": lambda text: _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), text),
    "D": lambda text: np.array([float.fromhex(word) for word in text.split()]),
}


@dataclass
class Publication:
    """What a program published at once."""

    namespace: str
    rank: int
    commits: int
    lost: int
    """Publications before it that could not be written."""
    updates: list[tuple[Mode, str, Any]] = field(default_factory=list)


class LineReader:
    """Publications of one file, as it grows."""

    def __init__(self) -> None:
        self._rest = b""
        self._updates: list[tuple[Mode, str, Any]] = []
        self.damaged = 0
        """Lines that are none: a file system that was full breaks them off."""

    def take(self, data: bytes) -> list[Publication]:
        """What has been published with these bytes, the next ones of the file."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            try:
                publication = self._read(line.decode().split("\t"))
            except (ValueError, KeyError, OverflowError):
                self.damaged += 1
                continue
            if publication is not None:
                found.append(publication)
        return found

    def _read(self, fields: list[str]) -> Publication | None:
        if fields[0] == "!":
            _, namespace, rank, commits, lost = fields
            publication = Publication(namespace, int(rank), int(commits), int(lost), self._updates)
            if publication.rank < 0 or not 0 < publication.commits <= _MOST_COMMITS:
                raise ValueError(fields)
            self._updates = []
            return publication
        mode, key, kind, value = fields
        self._updates.append((_MODES[mode], _TYPES["s"](key), _TYPES[kind](value)))
        return None
