"""Recurrence: what costs time again and again, by a function or by the system."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RecurrenceKind(StrEnum):
    """Kind of a recurrence."""

    INTERRUPTIONS = "interruptions"
    """Short delays that hit now one function and now another."""
    SLOW_MODE = "slow mode"
    """Calls of one function that take much longer than its others."""
    DRIFT = "drift"
    """All calls of one function have become slower."""
    DEADLOCK = "deadlock"
    """Ranks, or threads of one, that wait for each other for ever, or did until they were ended."""
    SLOW_RANKS = "slow ranks"
    """Ranks that are slower than the others all the time: those of one node, in most of what they compute, or
    those that take longer in the same functions.
    """
    SLOW_THREADS = "slow threads"
    """Threads that take longer than others of their rank in the same functions all the time."""
    LATE_THREADS = "late threads"
    """A thread of ranks for which the others wait at the same barrier again and again."""


class Recurrence(msgspec.Struct, frozen=True):
    """Calls that cost time in the same way again and again. Times are µs since the epoch."""

    program: int
    kind: RecurrenceKind
    function: str
    """Function of the calls; empty if they are of several."""
    calls: int
    """Number of calls that the finding is about."""
    cost_us: float
    """Core time that these delays lost together."""
    shortest_us: float
    longest_us: float
    """Minimum and maximum of the time that one such delay loses."""
    functions: list[str]
    """Functions that are hit, most often first."""
    ranks: list[int]
    begin_us: int
    end_us: int
    examples: list[str]
    """Ids of recorded calls, the most severe first."""
    share: float = 0.0
    """Share of the function's calls that are in a slow mode, or that a drift has made slower. What these
    take, and the others, follows.
    """
    typical_us: float = 0.0
    usual_us: float = 0.0
    callers: list[str] = []
    """Functions that all such calls are made by, where others call it too."""
    every_us: float = 0.0
    """Time from one to the next on a rank, if it is regular; else 0."""
    factor: float = 1.0
    """Runtime of calls relative to that at first, of a drift; relative to other ranks, of slow ranks."""
    node: str = ""
    """Node of slow ranks."""
    threads: list[int] = []
    """Slow threads, each on one of ``ranks`` at least."""
    cause: str = ""
    """Id of the cause in the node by which such calls lost most time; empty if it is not known, or not in
    the node.
    """
    by: str = ""
    """Process that took their cores, if it was mostly one or several from outside the program, or the limit
    that kept them from these; of a deadlock, who waits for what; the slow thread.
    """
    ranks_there: int = 0
    """Number of ranks that share ``cores``; 0 if each has one of its own, or nobody waited for a core."""
    cores: int = 0
    kinds_apart: list[str] = []
    """Ids of causes that no such short delay has."""
    costliest: str = ""
    """Call of the costliest of such delays, which is an incident of its own."""

    @property
    def key(self) -> tuple[int, str, str, str]:
        """Key that no two findings of a run share; it stays as they grow."""
        return self.program, self.kind.value, self.function, self.node


def recurrence_id(number: int) -> str:
    """Return the id of a finding, which no call or incident can have."""
    return f"R{number}"
