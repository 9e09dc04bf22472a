"""What costs time again and again: no event of its own, but a habit of a function or of the system."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RecurrenceKind(StrEnum):
    """What kind of habit it is."""

    INTERRUPTIONS = "interruptions"
    """Short delays that hit now one function and now another."""
    SLOW_MODE = "slow mode"
    """Calls of one function that take much longer than its others."""
    DRIFT = "drift"
    """All calls of one function have become slower."""
    SLOW_RANKS = "slow ranks"
    """Ranks of one node that are slower than the others all the time, in all or most of what they compute."""


class Recurrence(msgspec.Struct, frozen=True):
    """Calls that cost time in the same way again and again. Times are µs since the epoch."""

    program: int
    kind: RecurrenceKind
    function: str
    """Empty where it is not one alone."""
    calls: int
    """That are meant."""
    cost_us: float
    """Core time that they lost together."""
    shortest_us: float
    longest_us: float
    """What one of them loses at least and at most."""
    functions: list[str]
    """Those that are hit, most often first."""
    ranks: list[int]
    begin_us: int
    end_us: int
    examples: list[str]
    """Ids of recorded calls, the most severe first."""
    share: float = 0.0
    """Of the function's calls, in a slow mode; and what these take, and the others, typically."""
    typical_us: float = 0.0
    usual_us: float = 0.0
    callers: list[str] = []
    """Functions that all such calls are made by, where others call it too."""
    every_us: float = 0.0
    """Time from one to the next on a rank, where that is regular."""
    factor: float = 1.0
    """How many times as long calls take: as at first, of a drift; as those of other ranks, of slow ranks."""
    node: str = ""
    """Of slow ranks."""
    cause: str = ""
    """What of their node such calls lost most of it by, one of ``Kind``; empty where that is not known, or it
    was not the node."""
    by: str = ""
    """Who took their cores, where that was mostly one process that is none of the program."""
    ranks_there: int = 0
    """How many ranks share ``cores`` there; 0 where each has one of its own, or nobody waited for a core."""
    cores: int = 0

    @property
    def key(self) -> tuple[int, str, str, str]:
        """Of findings of one run no two have the same; it stays as they grow."""
        return self.program, self.kind.value, self.function, self.node


def recurrence_id(number: int) -> str:
    """Id of a finding, which no call or incident can have."""
    return f"R{number}"
