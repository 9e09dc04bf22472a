"""Incident: a delay, with all calls that were flagged because of it."""

from __future__ import annotations

import msgspec

from chimbuko.causes.part import HELD_UP, Part
from chimbuko.causes.wording import Bound


class Waited(msgspec.Struct, frozen=True):
    """Call of an incident that is not its origin: it waited, or lost time as a consequence."""

    call_id: str
    rank: int
    operation: str
    """Function that the program called."""
    lost_us: float
    """Excess of the call."""
    entry_us: int
    exit_us: int
    for_call_id: str
    """Recorded call for which this one waited, nearer to the origin; empty if it is not known."""
    kind: str
    """Id of its main cause."""
    is_flagged: bool = True
    """Whether it is abnormal itself; often its function takes as long for other reasons."""
    thread: int = 0
    """Thread of its rank that it was on."""


class NodeLoss(msgspec.Struct, frozen=True):
    """Time in which a rank was kept from running, again and again or all along, whatever calls it was in."""

    id: str
    rank: int
    begin_us: int
    end_us: int
    lost_us: float
    """Time lost; of waits for a core the part beyond the usual."""
    beyond_us: float
    """Part of that time that lies in no call of the incident."""


MOST_ASKED = 64
"""Most ranks that are asked who waited for a delay."""
MOST_NEAR = 16
"""Most of these whose numbers are nearest to that of its rank; the others are spread over all."""
LEAST_SAMPLE = 8
"""Fewest ranks from which the waits of others are estimated."""


class Asked(msgspec.Struct, frozen=True):
    """Ranks with no abnormal call in an incident that were asked who waited for it."""

    near: list[int] = []
    """Ranks whose numbers are nearest to that of the delay's rank."""
    spread: list[int] = []
    """Ranks that were chosen among all others, for which they stand."""


class Incident(msgspec.Struct, frozen=True):
    """Delay with its consequences. Times are µs since the Unix epoch on the trace's clock."""

    number: int
    """Number in the run, from 1; it stays with the incident as it grows."""
    program: int
    kind: str
    """Id of the main cause of the origin."""
    rank: int | None
    """Rank that lost the time at first; None if it is not on record."""
    function: str
    """Function of the origin; empty if only the rank is known, or nothing, or it was in many calls."""
    call_id: str
    """Id of the origin; empty if it is not on record, or is no call."""
    node: str
    entry_us: int
    exit_us: int
    runtime_us: float
    """Runtime of the origin by which it is judged; 0 if it is not on record, as are expected runtime and
    excess.
    """
    expected_us: float
    excess_us: float
    is_whole: bool
    """Whether that is all of its runtime: it made no calls, or is judged with those inside it."""
    begin_us: int
    """Begin of the first of its calls; ``end_us`` is the end of the last one."""
    end_us: int
    cost_us: float
    """Core time lost on all ranks."""
    parts: list[Part]
    """Parts of the origin's excess."""
    waited: list[Waited]
    """Other calls, those that lost most time first."""
    is_flagged: bool = True
    """Whether the origin is abnormal itself, where it is on record; else calls that waited for it are."""
    losses: list[NodeLoss] = []
    """Losses of ranks by the samples of a node. Where the origin is no call the first one is the origin."""
    is_of_all: bool = False
    """Whether all ranks of the program that are known, and more than one, were stopped together."""
    thread: int = 0
    """Thread of the origin; 0 if it is not on record."""
    is_partial: bool = False
    """Whether more ranks may have waited, of which nobody knows."""
    asked: Asked = Asked()
    estimated_us: float = 0.0
    """Part of the cost that ranks lost which were not asked, by the mean of ``asked.spread``."""
    estimated_ranks: int = 0
    """Number of these ranks that lost time, by the same."""
    of_ranks: int = 0
    """Number of ranks of the program, where a part of the cost is estimated."""
    between: list[str] = []
    """Functions that were called before, where that is known, and after, if the origin is what their caller
    spent itself in between.
    """
    told_before: str = ""
    """Earlier sentence about the incident, before another origin or cause was found; empty for none."""

    @property
    def id(self) -> str:
        """Id in records, lists and addresses."""
        return incident_id(self.number)

    @property
    def is_loss(self) -> bool:
        """Whether its origin is no call, but what a rank lost by its node."""
        return not self.call_id and self.kind in HELD_UP

    @property
    def flags(self) -> int:
        """Number of flagged calls in it."""
        return sum(one.is_flagged for one in self.waited) + (bool(self.call_id) and self.is_flagged)

    @property
    def ranks(self) -> int:
        """Number of ranks that lost time."""
        own = {self.rank} if self.call_id else set()
        known = {one.rank for one in self.waited} | {one.rank for one in self.losses} | own
        return len(known) + self.estimated_ranks

    @property
    def bound(self) -> Bound:
        """How sure its cost is."""
        return Bound.LEAST if self.is_partial else Bound.ESTIMATED if self.estimated_us else Bound.EXACT


def incident_id(number: int) -> str:
    """Return the id of an incident, which no call can have."""
    return f"I{number}"
