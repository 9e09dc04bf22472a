"""Table of the traced processes of a family, shared by its writer server and its writers, and their places
among the ranks of a run.
"""

from __future__ import annotations

import mmap
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chimbuko.instrument.tracer.chunks import Children, Header
from chimbuko.runtime.process.ranks import (
    RANK_VARIABLES,
    SIZE_VARIABLES,
    TRAINING_RANK,
    TRAINING_SIZE,
    size_from,
    stated_rank,
)

MOST_IN_ALL = 1024
"""Most traced processes of a family: each has a stream, which an agent reads."""
MOST_NAMED = 8
"""Most programs that are named."""


class State(IntEnum):
    """State of a member."""

    TRACED = 1
    ENDED = 2
    """The process has ended, and its stream is being completed."""
    OVER = 3


_PID, _PARENT, _RANK, _STATE, _IS_FORKED = range(5)


class Members:
    """Table with a row for each member, in order of arrival. Each field has one writer, so needs no lock."""

    def __init__(self) -> None:
        columns = 5
        memory = mmap.mmap(-1, (MOST_IN_ALL + 1) * columns * 8)
        self._rows = np.frombuffer(memory, np.int64).reshape(-1, columns)
        self._refused = self._rows[MOST_IN_ALL]
        self.count = 0
        """Number of members that have come; it is known to the writer server only."""

    def add(self, pid: int, header: Header) -> int:
        """Add a member; return its number."""
        number, self.count = self.count, self.count + 1
        self._rows[number] = pid, header.parent_pid, -1, State.TRACED, header.is_forked
        return number

    def refuse(self) -> None:
        """Count a process that asked to become a member and was refused."""
        self._refused[0] += 1

    @property
    def refused(self) -> int:
        """Number of processes that were refused."""
        return int(self._refused[0])

    def set_rank(self, number: int, rank: int) -> None:
        """Set the rank of a member."""
        self._rows[number, _RANK] = rank

    def set_state(self, number: int, state: State) -> None:
        """Set the state of a member."""
        self._rows[number, _STATE] = state

    def is_any_ending(self) -> bool:
        """Whether the stream of any process that has ended is still being completed."""
        return bool((self._rows[:, _STATE] == State.ENDED).any())

    def rank_of(self, pid: int) -> int | None:
        """Return the rank of the last process of this id; None if it is not known."""
        ranks = self._rows[self._rows[:, _PID] == pid, _RANK]
        return int(ranks[-1]) if len(ranks) and ranks[-1] >= 0 else None

    def will_have_rank(self, pid: int) -> bool:
        """Whether the process is a member whose writer has not set its rank yet."""
        rows = self._rows[self._rows[:, _PID] == pid]
        return bool(len(rows)) and rows[-1, _RANK] < 0 and rows[-1, _STATE] == State.TRACED

    def not_traced(self, parent: int, forks: int, programs: dict[int, str], others: int) -> str:
        """Describe the children of the process ``parent`` that are not members; empty for none.

        Parameters
        ----------
        forks, programs, others
            All processes that it has started, as in ``Children``.
        """
        rows = self._rows[:MOST_IN_ALL]
        of_parent = (rows[:, _PARENT] == parent) & (rows[:, _STATE] > 0)
        short = max(0, forks - int((of_parent & (rows[:, _IS_FORKED] == 1)).sum()))
        members = {int(pid) for pid in rows[rows[:, _STATE] > 0, _PID]}
        counts: dict[str, int] = {}
        for pid, name in programs.items():
            if pid not in members:
                counts[name] = counts.get(name, 0) + 1
        total = short + sum(counts.values()) + others
        if not total:
            return ""
        most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        parts = [f"{count} {name}" for name, count in most[:MOST_NAMED]]
        if rest := others + sum(count for _, count in most[MOST_NAMED:]):
            parts.append(f"{rest} others")
        if short:
            parts.append(f"{short} forked without work for long enough")
        return f"{total} ({', '.join(parts)})"


class Started:
    """Processes that one member has started so far, added up from its handovers."""

    def __init__(self) -> None:
        self.forks = 0
        self.programs: dict[int, str] = {}
        self.others = 0

    def add(self, children: Children) -> None:
        """Add the processes that a handover names."""
        self.forks, self.others = children.forks, children.others
        self.programs |= children.programs or {}


# Places of the members of a family among the ranks of a run: a job of MPI that a member launches keeps its
# ranks, so that messages lead to whom they went.


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


class InMpi(NamedTuple):
    """What MPI has said to a process."""

    parent: int = 0
    """Parent of the process."""
    rank: int = -1
    """Rank; -1 where it is not known."""
    size: int = 0
    """Number of ranks."""


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

    def of(self, pid: int, in_mpi: Callable[[], InMpi] = InMpi) -> Place:
        """Return the place of a new member.

        Parameters
        ----------
        in_mpi
            Called where the process has ended, and not before: what MPI said to it is all that is known then.
        """
        environment = _environment_of(pid)
        if not environment:
            said = in_mpi()
            is_of_job = said.rank >= 0 and said.size > 1
            return self._of_job(*said) if is_of_job else self._alone()
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
    # Of one that nobody has waited for yet the text is empty, too.
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split("\0")) if name}


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
