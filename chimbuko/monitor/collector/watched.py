"""Processes that are watched, and those that may become ranks of a run."""

from __future__ import annotations

import os

import msgspec

from chimbuko.monitor.sampling.procreader import read_once


class Watched(msgspec.Struct, frozen=True):
    """A rank's process."""

    pid: int
    program: int
    rank: int


MOST_EXPECTED = 64
"""Maximum number of processes that are looked at before they are known to be ranks."""
_VARIABLE = b"TAU_ADIOS2_FILENAME="
YOUNG_LOOKS, MOST_YOUNG = 10, 16
"""Looks at which the newest processes are asked again: a fork has its parent's environment until it is a
program of its own, which takes long where others take the cores.
"""


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
        self._young: dict[str, int] = {}
        """Processes that are asked again, with the number of looks."""
        self._found = 0
        self._newest = b""
        """Id of the newest process of the node at the last look."""

    def look(self) -> list[int]:
        """Return such processes that were not returned before."""
        # To list all processes takes 0.5 ms, ten times a second, and mostly there is no new one.
        newest, before = read_once("/proc/loadavg").rpartition(b" ")[2], self._newest
        if newest != before or newest.strip() in (b"", b"0"):
            self._newest = newest
            names = {name for name in os.listdir("/proc") if name.isdigit()}
            new, self._seen = sorted(names - self._seen, key=int), names
            self._young |= dict.fromkeys(new[:-MOST_YOUNG], 1) | dict.fromkeys(new[-MOST_YOUNG:], YOUNG_LOOKS)
        found = [name for name in self._young if self._is_one(name)][: MOST_EXPECTED - self._found]
        self._found += len(found)
        asked_again = self._young.keys() - found
        self._young = {name: looks - 1 for name in asked_again if (looks := self._young[name]) > 1}
        return [int(name) for name in found]

    def _is_one(self, name: str) -> bool:
        return any(
            entry.startswith(self._wanted) for entry in read_once(f"/proc/{name}/environ").split(b"\0")
        )
