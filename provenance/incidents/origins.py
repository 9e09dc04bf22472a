"""Origins of lost time: each incident's cost stands with its origin, and waits stand apart."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import msgspec
from sqlalchemy import func, select

from chimbuko.causes.wording import BOUNDS, Bound
from chimbuko.provenance.query.names import is_current
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.tables import CALLS, INCIDENTS

OriginBy = Literal["rank", "function"]


class Origin(msgspec.Struct, frozen=True):
    """Rank or function with what began there, and what it lost because of others."""

    program: int
    rank: int | None
    """Rank; None in a list of functions."""
    function: str | None
    """Function; None in a list of ranks."""
    incidents: int
    """Number of incidents that began here."""
    lost_us: float
    """Core time that these incidents cost on all ranks."""
    waited_us: float
    """Time lost here in calls that are not the origin of their incident."""
    bound: Bound = Bound.EXACT
    """How sure the time is that these incidents cost."""


class OriginList(msgspec.Struct, frozen=True):
    """Origins of lost time, those with most time first."""

    origins: list[Origin]
    """Origins, most time lost first."""
    total: int
    """Number of all ranks or functions at which an incident began, or which one held up."""
    lost_us: float
    """Core time that all incidents cost."""
    unknown_us: float
    """Part of this time that incidents cost whose origin is not on record."""


Times = tuple[int, int] | None
"""Begin and end of a time in µs since the epoch; None for all."""


def origins(reader: RunReader, by: OriginBy, limit: int, times: tuple[int, int] | None = None) -> OriginList:
    """Return ranks, or functions, by the core time that was lost because of them.

    Parameters
    ----------
    times
        Begin and end, in µs since the epoch, of the time in which incidents and calls count; None for all.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    lost = _lost(reader, by, times)
    waited = _waited(reader, by, times)
    unknown_us = sum(cost_us for (_, number), (_, cost_us, _) in lost.items() if number < 0)
    places = [place for place in lost.keys() | waited.keys() if place[1] >= 0]
    places.sort(key=lambda place: (-lost[place][1], -waited[place], place))
    functions = reader.names.functions
    return OriginList(
        origins=[
            Origin(
                program=program,
                rank=number if by == "rank" else None,
                function=functions[number] if by == "function" else None,
                incidents=lost[program, number][0],
                lost_us=lost[program, number][1],
                waited_us=waited[program, number],
                bound=BOUNDS[lost[program, number][2]],
            )
            for program, number in places[:limit]
        ],
        total=len(places),
        lost_us=sum(cost_us for _, cost_us, _ in lost.values()),
        unknown_us=unknown_us,
    )


OriginKey = tuple[int, int]
"""Number of a program, and of one of its ranks or functions."""


def _lost(reader: RunReader, by: OriginBy, times: Times) -> dict[OriginKey, tuple[int, float, int]]:
    """Return how many incidents began at each origin, what they cost, and the place of the bound of that."""
    columns = INCIDENTS.c
    place = (columns.program, columns[by])
    sums = func.count(), func.sum(columns.cost_us), func.max(columns.bound)
    statement = select(*place, *sums).where(is_current(reader.run))
    if times is not None:
        statement = statement.where(columns.begin_us <= times[1], columns.end_us >= times[0])
    found: dict[OriginKey, tuple[int, float, int]] = defaultdict(lambda: (0, 0.0, 0))
    for program, number, incidents, cost_us, bound in reader.rows(statement.group_by(*place)):
        found[program, number] = int(incidents), float(cost_us), int(bound)
    return found


def _waited(reader: RunReader, by: OriginBy, times: Times) -> dict[OriginKey, float]:
    """Return the time lost in calls that others held up, by rank or function."""
    # Not joined in the database: by a text that is made of numbers, 100,000 calls took minutes.
    incident, call = INCIDENTS.c, CALLS.c
    began = select(incident.call).where(is_current(reader.run), incident.call != "")
    begun = {tuple(map(int, name.split(":"))) for (name,) in reader.rows(began)}
    columns = (call.program, call.rank, call.begin_step, call.begin_row, call[by], call.severity_us)
    held_up = select(*columns).where(call.run == reader.run, call.incident_id.is_not(None))
    if times is not None:
        held_up = held_up.where(call.entry_us <= times[1], call.entry_us + call.inclusive_us >= times[0])
    found: dict[OriginKey, float] = defaultdict(float)
    for program, rank, step, row, number, lost_us in reader.rows(held_up):
        if (program, rank, step, row) not in begun:
            found[program, number] += lost_us
    return found
