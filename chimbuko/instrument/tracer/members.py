"""Table of the traced processes of a family, shared by its writer server and its writers."""

from __future__ import annotations

import mmap
from enum import IntEnum

import numpy as np

from chimbuko.instrument.tracer.chunks import Children, Header

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
