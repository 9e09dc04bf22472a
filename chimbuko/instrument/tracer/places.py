"""Places of the members of a family among the ranks of a run: a job of MPI that a member launches keeps its
ranks, so that messages lead to whom they went.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from chimbuko.runtime.process.ranks import (
    RANK_VARIABLES,
    SIZE_VARIABLES,
    TRAINING_RANK,
    TRAINING_SIZE,
    size_from,
    stated_rank,
)

_OURS, *_OF_LAUNCHERS = RANK_VARIABLES
_STEP = "SLURM_STEP_ID"
"""Environment variable by which a step of Slurm differs from its batch script, which has rank 0, too."""
_INIT = 1
_MOST_READ = 50


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
        self._own = _launched(environment)
        self._size = size_from(environment)
        self._next = 0
        self._first_ranks: dict[tuple[int, int], int] = {}
        """First ranks of jobs by their launchers, and by how many processes of a rank came before."""
        self._arrived: Counter[tuple[int, int]] = Counter()
        """Number of processes by launcher and rank."""

    def of(self, pid: int, parent: int = 0, rank: int = -1, size: int = 0) -> Place:
        """Return the place of a new member.

        Parameters
        ----------
        parent, rank, size
            Parent, and rank and number of ranks for MPI, of a process that may have ended already; rank -1
            where it is not known.
        """
        environment = _environment_of(pid)
        if not environment:
            return self._of_job(parent, rank, size) if rank >= 0 and size > 1 else self._alone()
        launched = _launched(environment)
        stated = stated_rank({key: value for key, value in environment.items() if key != _OURS})
        if launched == self._own or stated is None:
            return self._alone()
        return self._of_job(_launcher_of(pid, launched), stated, size_from(environment))

    def _alone(self) -> Place:
        return Place(self._taken(self._size), self._size)

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


def _launched(environment: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return what a launcher has said to a process."""
    names = (*_OF_LAUNCHERS, *SIZE_VARIABLES, _STEP, TRAINING_RANK, TRAINING_SIZE)
    return tuple(environment.get(name) for name in names)


def _environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process began; empty where it has ended, or is another user's."""
    try:
        # One read in twelve found none where processes executed another program: they have none meanwhile.
        for _ in range(_MOST_READ):
            text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
            if text or _has_ended(pid):
                break
            time.sleep(0.001)
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split("\0"))}


def _has_ended(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][:1]
    return state in ("Z", "X")


def _launcher_of(pid: int, launched: tuple[str | None, ...]) -> int:
    """Return the nearest ancestor of a process to which no launcher has said the same."""
    while (pid := _parent_of(pid)) > _INIT:
        if _launched(_environment_of(pid)) != launched:
            break
    return pid


def _parent_of(pid: int) -> int:
    try:
        # The name of a process, in brackets, may hold anything.
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
