"""Which recorded calls belong to a finding of what recurs: those that are slow in its way."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import ColumnElement, String, and_, cast, literal, select

from chimbuko.causes.recurrence import Habit, Recurrence
from chimbuko.provenance.query.planner import Place, of_ranks, one_of
from chimbuko.provenance.query.rows import AnyRow, AnySelect
from chimbuko.provenance.store.tables import CALLS, INCIDENTS, RECURRENCES

_ID = re.compile(r"R(\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class FindingCalls:
    """What a call must be to belong to a finding."""

    program: int
    function: int = -1
    """Number of the function that it is of; -1 where that may be any."""
    ranks: Sequence[int] = ()
    """On which it is; empty where that may be any."""
    judged_us: float = 0.0
    """What it takes at least, by the runtime that is judged; 0 where that is not looked at."""
    short_us: float = 0.0
    """Cost below which an incident of which it is the only call is; 0 where that is not looked at."""

    def place(self, run: int) -> Place:
        """Where a search finds such calls."""
        call = CALLS.c
        if self.short_us:
            return Place("ix_calls_incident_id", (call.incident_id.in_(self._short(run)),))
        if self.ranks:
            ranks = [(self.program, rank) for rank in self.ranks]
            return Place("ix_calls_rank", (one_of(call.rank, self.ranks), of_ranks(ranks)))
        of_function = call.function == self.function
        if not self.judged_us:
            return Place("ix_calls_function", (of_function,), True)
        # An open call is in no mode yet.
        has_ended = call.is_open.is_(False)
        is_slow = call.expected_us + call.severity_us >= self.judged_us
        return Place("ix_calls_function", (of_function, has_ended, is_slow), True)

    def sql(self) -> str:
        """The same as a condition that users can read, on the views of calls."""
        if self.short_us:
            return (
                "incident_id IN (SELECT 'I' || number FROM incidents WHERE run = :run AND merged_into = 0 "
                f"AND NOT is_gone AND program = {self.program} AND flags = 1 AND cost_us < {self.short_us!r})"
            )
        if self.ranks:
            return f"program = {self.program} AND rank IN ({', '.join(map(str, self.ranks))})"
        name = f"SELECT name FROM functions WHERE run = :run AND number = {self.function}"
        of_function = f"program = {self.program} AND function = ({name})"
        if not self.judged_us:
            return of_function
        return f"{of_function} AND NOT is_open AND expected_us + severity_us >= {self.judged_us!r}"

    def _short(self, run: int) -> AnySelect:
        columns = INCIDENTS.c
        return select(literal("I").concat(cast(columns.number, String))).where(
            is_current(run),
            columns.program == self.program,
            columns.flags == 1,
            columns.cost_us < self.short_us,
        )


def finding_calls(
    finding: str, run: int, rows: Callable[[AnySelect], Sequence[AnyRow]]
) -> FindingCalls | None:
    """Which calls belong to a finding of a run, by its id; None where there is no such finding.

    Calls of a slow mode take as long as its shortest; those of a drift are all of the function; those of
    slow ranks all on these; short delays are the calls whose incidents are no more than they.

    Parameters
    ----------
    rows
        Runs a statement.
    """
    match = _ID.fullmatch(finding)
    columns = RECURRENCES.c
    statement = select(columns.function, columns.details).where(
        columns.run == run, columns.number == (int(match[1]) if match else 0)
    )
    for function, details in rows(statement):
        found = msgspec.json.decode(zlib.decompress(details), type=Recurrence)
        match found.kind:
            case Habit.INTERRUPTIONS:
                return FindingCalls(found.program, short_us=found.longest_us)
            case Habit.SLOW_RANKS:
                return FindingCalls(found.program, ranks=found.ranks)
            case Habit.DRIFT:
                return FindingCalls(found.program, function)
            case Habit.SLOW_MODE:
                return FindingCalls(found.program, function, judged_us=found.shortest_us + found.usual_us)
    return None


def is_current(run: int) -> ColumnElement[bool]:
    """Of a run's incidents those that are no part of others, and have flagged calls."""
    columns = INCIDENTS.c
    return and_(columns.run == run, columns.merged_into == 0, columns.is_gone.is_(False))
