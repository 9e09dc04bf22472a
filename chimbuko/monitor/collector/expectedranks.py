"""Processes that may become ranks of a run, found before the first step of a trace names them."""

from __future__ import annotations

import os

from chimbuko.monitor.sampling.procreader import read_once

MOST_EXPECTED = 64
"""Maximum number of processes that are looked at before they are known to be ranks."""
_VARIABLE = b"TAU_ADIOS2_FILENAME="


class ExpectedRanks:
    """Processes whose environment says that they leave their traces in a folder.

    A rank is known a second after it began, by the first step of its trace: a third of a run of three seconds
    would have no samples.

    Parameters
    ----------
    folder
        Folder of the traces.
    """

    def __init__(self, folder: str) -> None:
        self._wanted = _VARIABLE + os.fsencode(folder) + b"/"
        self._seen: set[str] = set()
        self._found = 0
        self._newest = b""
        """Id of the newest process of the node at the last look."""

    def look(self) -> list[int]:
        """Return such processes that were not there at the last look."""
        # To list all processes takes 0.5 ms, ten times a second, and mostly there is no new one.
        newest, before = read_once("/proc/loadavg").rpartition(b" ")[2], self._newest
        if newest == before and newest.strip() not in (b"", b"0"):
            return []
        self._newest = newest
        names = {name for name in os.listdir("/proc") if name.isdigit()}
        new, self._seen = names - self._seen, names
        found = [int(name) for name in new if self._is_one(name)][: MOST_EXPECTED - self._found]
        self._found += len(found)
        return found

    def _is_one(self, name: str) -> bool:
        return any(
            entry.startswith(self._wanted) for entry in read_once(f"/proc/{name}/environ").split(b"\0")
        )
