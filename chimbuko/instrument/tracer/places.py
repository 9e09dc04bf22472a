"""Places of the members of a family among the ranks of a run: a job of MPI that a member launches keeps its
ranks, so that messages lead to whom they went.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from chimbuko.runtime.process.ranks import (
    RANK_VARIABLES,
    SIZE_VARIABLES,
    TRAINING_RANK,
    TRAINING_SIZE,
    size_from,
    stated_rank,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS, *_OF_LAUNCHERS = RANK_VARIABLES
_STEP = "SLURM_STEP_ID"
"""Environment variable by which a step of Slurm differs from its batch script, which has rank 0, too."""
_VARIABLES = (*_OF_LAUNCHERS, *SIZE_VARIABLES, _STEP, TRAINING_RANK, TRAINING_SIZE)
_INIT = 1
_MOST_READ = 50


class Launched(NamedTuple):
    """Statements of the launcher of a process about its place."""

    launcher: int = 0
    """Process id of the launcher: of the nearest ancestor to which nobody has said the same."""
    rank: int | None = None
    """Rank that the launcher gave; None where there is none."""
    size: int = 1
    """Number of ranks."""
    words: tuple[str | None, ...] = ()
    """Values of the environment variables of launchers."""


def launched(pid: int, parent: int) -> Launched | None:
    """Return what the launcher of a process has said to it; None where the process has ended."""
    environment = _environment_of(pid)
    if environment is None:
        return None
    words = _words(environment)
    rank = stated_rank({key: value for key, value in environment.items() if key != _OURS})
    launcher = 0 if rank is None else _launcher_of(parent, words)
    return Launched(launcher, rank, size_from(environment), words)


class Place(NamedTuple):
    """Place of a member."""

    first_rank: int
    """Number that the rank of the member is added to."""
    size: int
    """Number of ranks that share the first one."""
    rank: int | None = None
    """Rank in a job that a member of the family has launched; None outside of any."""


class Places:
    """Places that are given to members as they arrive.

    Parameters
    ----------
    environment
        Environment in which the family began.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._own = _words(environment)
        self._size = size_from(environment)
        self._next = 0
        self._first_ranks: dict[tuple[int, int], int] = {}
        """First ranks of jobs by their launchers, and by how many processes of a rank came before."""
        self._arrived: Counter[tuple[int, int]] = Counter()
        """Number of processes by launcher and rank."""

    def of(self, launched: Launched) -> Place:
        """Return the place of a new member, by what its launcher has said to it."""
        if launched.rank is None or launched.words == self._own:
            return Place(self._taken(self._size), self._size)
        return self._of_job(launched.launcher, launched.rank, launched.size)

    def _of_job(self, launcher: int, rank: int, size: int) -> Place:
        earlier = self._arrived[launcher, rank]
        self._arrived[launcher, rank] += 1
        if (launcher, earlier) not in self._first_ranks:
            self._first_ranks[launcher, earlier] = self._taken(size)
        return Place(self._first_ranks[launcher, earlier], size, rank)

    def _taken(self, size: int) -> int:
        first = self._next
        # Families of other ranks of the program leave out the same numbers.
        self._next += -(-size // self._size) * self._size
        return first


def _words(environment: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(environment.get(name) for name in _VARIABLES)


def _environment_of(pid: int) -> dict[str, str] | None:
    """Return the environment with which a process began; None where it has ended, or is another user's."""
    try:
        # One read in twelve found none where processes executed another program: they have none meanwhile.
        for _ in range(_MOST_READ):
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read().decode(errors="replace")
            if text or pid == os.getpid():
                break
            if _status_of(pid)[0] in ("Z", "X"):
                return None
            time.sleep(0.001)
    except OSError:
        return None
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split("\0")) if name}


def _launcher_of(parent: int, words: tuple[str | None, ...]) -> int:
    with suppress(OSError):
        while parent > _INIT and _words(_environment_of(parent) or {}) == words:
            parent = int(_status_of(parent)[1])
    return parent


def _status_of(pid: int) -> list[str]:
    """Return the state of a process, its parent, and what follows in its line of status."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        # The name of a process, in brackets, may hold anything.
        return file.read().rpartition(") ")[2].split()
