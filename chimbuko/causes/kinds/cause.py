"""Cause of lost time: how it is found in a call, and what sentences and the page say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import Incident, Waited
from chimbuko.causes.part import HELD_UP, Part

Finder = Callable[[Flag, Evidence], Iterator[Part]]
"""Function that yields the parts of a call's excess that a cause explains, as if it were the only cause."""
Colour = Literal["program", "ranks", "node", "unexplained"]
"""Group of causes, which has a colour on the page: a style of this name, behind ``cause-``, in
``incident.css``.
"""


class Told(NamedTuple):
    """Clause about a whole incident."""

    clause: str
    waited: list[Waited]
    """Calls of the incident that the clause tells of, so that no other clause does."""


def _no_clause(part: Part, rank: int | None) -> str:
    return ""


def _not_told(incident: Incident, main: Part) -> Told | None:
    return None


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one cause. Causes that are found together have the same ``find``."""

    id: str
    """Name of the cause wherever it stands: in records, in the API and on the page."""
    colour: Colour
    text: str
    """Text on the page, which completes "This much time was lost". Names in braces are fields of ``Part``, as
    ``viz/web/src/shared/api/causes.ts`` says."""
    is_in_node: bool = False
    """Whether samples of the node show it, and the node is to blame."""
    is_by_amount: bool = False
    """Whether ``by`` of a part is an amount, which changes a little with what is known, and names nobody."""
    is_wait: bool = False
    """Whether the call waited for another one."""
    find: Finder | None = None
    """Finds it while other causes may explain as much; None if it only claims what the others leave."""
    claim: Finder | None = None
    """Claims what all finders left unexplained."""
    clause: Callable[[Part, int | None], str] = _no_clause
    """Returns the clause behind "FUNCTION on rank R took 2 s", for the main part of a call on that rank; may
    be empty.
    """
    tell: Callable[[Incident, Part], Told | None] = _not_told
    """Tells of all ranks that an incident hit at the same time, in place of its origin alone; gets the main
    part of the origin, and returns None where there is no more to tell."""
    recurring: str = ""
    """Words behind "as they" in the sentence of a recurrence, for a cause in the node; ``{was}``, ``{its}``
    and ``{cores}`` follow the number of ranks.
    """

    @property
    def is_held_up(self) -> bool:
        """Whether the thread did not run."""
        return self.id in HELD_UP
