"""Processes of the run that this process belongs to, told from those of other runs and of anybody else, and
their names in samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from itertools import pairwise

from chimbuko.monitor.procfs.task import TaskStat
from chimbuko.monitor.sampling.procreader import read_once

# Names in samples of processes of Chimbuko: of the run itself, and of others.


ITSELF, ANOTHER_RUN = "chimbuko: itself", "another chimbuko"
"""Names in samples of processes of this run's analysis, and of another's. No process can call itself so: the
kernel keeps 15 bytes of a name.
"""
_PREFIX = "chimbuko."
_PARTS = frozenset(
    {
        "ad",
        "broker",
        "drain",
        "guard",
        "instru",
        "launch",
        "observ",
        "proven",
        "pserve",
        "viz",
        "captur",
        "monito",
    }
)
"""Words behind the prefix, as far as the kernel keeps them."""


_STARTERS = ("chimbuko", "python")
"""Beginnings of the names of the process by which a user starts a run: that of our script, or Python's."""


def is_title(name: str) -> bool:
    """Whether a process of Chimbuko calls itself so."""
    return name.startswith(_PREFIX) and name.split(".")[1] in _PARTS


def spoken(name: str) -> str:
    """Return the name of a process that samples have, as it reads in sentences."""
    return "another run of chimbuko" if name == ANOTHER_RUN else name


def is_of_analysis(name: str) -> bool:
    """Whether samples have this name of a process of the run's own analysis; in samples of earlier versions
    these have their titles.
    """
    return name == ITSELF or is_title(name)


LookUp = Callable[[int], TaskStat | None]
"""Function that returns what ``/proc`` says of a process, or None if it has ended."""
MOST_KNOWN = 1000
RUN_VARIABLES = (b"CHIMBUKO_", b"TAU_")
"""Beginnings of the variables that say where a rank leaves its trace."""
_BESIDE_RANKS = frozenset({"chimbuko.drain", "chimbuko.guard", "chimbuko.instru"})
"""Processes that ranks start for their traces, which are nobody's children."""


class OwnRun:
    """Processes of this run's analysis: those that the topmost of ours above this process has started, and
    those that write the traces of its ranks, which have their variables.

    Parameters
    ----------
    own
        A process of the run; this one by default.
    """

    def __init__(self, own: int | None = None) -> None:
        self._own = os.getpid() if own is None else own
        self._known: dict[tuple[int, int], str] = {}
        """Names in samples by pid and start, of those that may be of a run by their names."""

    def name_in_samples(self, stat: TaskStat, look_up: LookUp, watched: Collection[int]) -> str:
        """Return the name of a process in samples.

        Parameters
        ----------
        look_up
            Function that returns what ``/proc`` says of a process, or None if it has ended.
        watched
            The program's.
        """
        if not stat.name.startswith(_STARTERS) or (not watched and not is_title(stat.name)):
            return stat.name
        key = stat.tid, stat.start_ticks
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._name(stat, look_up, watched)
        return self._known[key]

    def _name(self, stat: TaskStat, look_up: LookUp, watched: Collection[int]) -> str:
        if is_title(stat.name):
            return ITSELF if self._has(stat, look_up, watched) else ANOTHER_RUN
        # The command of a run has no title of ours: it has started the analysis, and the program.
        has_begun = (self._root(look_up), stat.tid) in pairwise(_line(self._own, look_up))
        is_own = has_begun and any(stat.tid in _line(pid, look_up) for pid in watched)
        return ITSELF if is_own else stat.name

    def _has(self, stat: TaskStat, look_up: LookUp, watched: Collection[int]) -> bool:
        line = _line(stat.tid, look_up)
        if self._root(look_up) in line:
            return True
        is_beside = stat.name in _BESIDE_RANKS and not set(line).intersection(watched)
        started_with = _started_with(stat.tid)
        return is_beside and bool(started_with) and started_with in map(_started_with, watched)

    def _root(self, look_up: LookUp) -> int:
        root = self._own
        for pid in _line(self._own, look_up)[1:]:
            stat = look_up(pid)
            if stat is None or not is_title(stat.name):
                break
            root = pid
        return root


def _line(pid: int, look_up: LookUp) -> list[int]:
    """Return a process, the one that started it, and so on, as far as they are known."""
    found = [pid]
    while (stat := look_up(found[-1])) is not None and stat.parent not in found:
        found.append(stat.parent)
    return found


def _started_with(pid: int) -> frozenset[bytes]:
    """Return the variables by which a process knows its run; none if they may not be seen."""
    entries = read_once(f"/proc/{pid}/environ").split(b"\0")
    return frozenset(entry for entry in entries if entry.startswith(RUN_VARIABLES))
