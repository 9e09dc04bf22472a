"""Which rank each process of a trace is."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from chimbuko.capture.formats.readers.events import Process

MOST_RANK = 10_000_000


def stated(process: Process) -> int | None:
    """The rank that a trace gives a process, where it can be one."""
    return process.rank if process.rank is not None and 0 <= process.rank < MOST_RANK else None


def assigned(processes: Sequence[Process], used: Collection[int]) -> list[int]:
    """A rank for each process: the one that the trace gives it, if no other has it, or one that is free.

    Parameters
    ----------
    used
        Numbers of the processes of which there are events: the others come last.
    """
    taken: set[int] = set()
    ranks: dict[int, int] = {}
    order = sorted(range(len(processes)), key=lambda number: number not in used)
    for number in order:
        wanted = stated(processes[number])
        if wanted is not None and wanted not in taken:
            ranks[number] = wanted
            taken.add(wanted)
    free = (number for number in itertools.count() if number not in taken)
    for number in order:
        if number not in ranks:
            ranks[number] = next(free)
    return [ranks[number] for number in range(len(processes))]
