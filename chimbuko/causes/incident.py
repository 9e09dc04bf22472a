"""One incident: a delay, with all that was flagged because of it."""

from __future__ import annotations

import msgspec

from chimbuko.causes.part import HELD_UP, Part


class Waited(msgspec.Struct, frozen=True):
    """A call of an incident that is not its origin: it waited, or lost time as a consequence."""

    call_id: str
    rank: int
    operation: str
    """What the program called."""
    lost_us: float
    """Its excess."""
    entry_us: int
    exit_us: int
    for_call_id: str
    """The recorded call that it waited for, nearer to the origin; empty where that is not known."""
    kind: str
    """Its main cause."""
    is_flagged: bool = True
    """Whether it is abnormal itself; often its function takes as long for other reasons."""


class NodeLoss(msgspec.Struct, frozen=True):
    """Time in which a rank was kept from running, again and again or all along, whatever calls it was in."""

    id: str
    rank: int
    begin_us: int
    end_us: int
    lost_us: float
    """Of it; of waits for a core what is beyond the usual."""
    beyond_us: float
    """Of that, in no call of the incident."""


class Incident(msgspec.Struct, frozen=True):
    """A delay with its consequences. Times are µs since the Unix epoch on the trace's clock."""

    number: int
    """Of the run, from 1; it stays with the incident as it grows."""
    program: int
    kind: str
    """Main cause of the origin."""
    rank: int | None
    """Where the time was lost at first; None where that is not on record."""
    function: str
    """In which function; empty where only the rank is known, or nothing, or it was in many calls."""
    call_id: str
    """The origin's; empty where it is not on record, or is no call."""
    node: str
    entry_us: int
    exit_us: int
    runtime_us: float
    """Of the origin, as it is judged; 0 where it is not on record, as the two that follow."""
    expected_us: float
    excess_us: float
    is_whole: bool
    """That is all of its runtime: it made no calls, or is judged with those inside it."""
    begin_us: int
    """Of the first and last of its calls."""
    end_us: int
    cost_us: float
    """Core time lost on all ranks."""
    parts: list[Part]
    """What the origin's excess is made of."""
    waited: list[Waited]
    """By time lost, most first."""
    is_flagged: bool = True
    """Whether the origin is abnormal itself, where it is on record; else calls that waited for it are."""
    losses: list[NodeLoss] = []
    """What the samples of a node say that ranks lost. Where it is no call the first one is the origin."""
    is_of_all: bool = False
    """Whether all ranks of the program that are known, and more than one, were stopped together."""

    @property
    def id(self) -> str:
        """As records, lists and addresses name it."""
        return incident_id(self.number)

    @property
    def is_loss(self) -> bool:
        """Whether its origin is no call, but what a rank lost by its node."""
        return not self.call_id and self.kind in HELD_UP

    @property
    def flags(self) -> int:
        """Flagged calls in it."""
        return sum(one.is_flagged for one in self.waited) + (bool(self.call_id) and self.is_flagged)

    @property
    def ranks(self) -> int:
        """Ranks that lost time."""
        own = {self.rank} if self.call_id else set()
        return len({one.rank for one in self.waited} | {one.rank for one in self.losses} | own)


def incident_id(number: int) -> str:
    """Id of an incident, which no call can have."""
    return f"I{number}"
