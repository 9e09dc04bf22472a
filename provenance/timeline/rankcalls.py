"""Recorded calls of a rank in a range of time, as a timeline reads them from the store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import func, or_, select

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.query.calls import Calls
from chimbuko.provenance.query.planner import one_of
from chimbuko.provenance.query.rows import select_records
from chimbuko.provenance.store.tables import CALLS, STEPS

_COLUMNS = (
    *("id", "begin_step", "begin_row", "is_anomaly", "is_open", "thread", "depth", "function", "entry_us"),
    *("inclusive_us", "exclusive_us", "severity_us", "score", "expected_us", "children", "messages_count"),
)


class JudgedCall(msgspec.Struct, frozen=True):
    """A call with a record of its own, and how it was judged."""

    step: int
    row: int
    is_anomaly: bool
    is_open: bool
    thread: int
    depth: int
    function: str
    entry_us: int
    inclusive_us: int
    exclusive_us: int
    severity_us: float
    score: float
    expected_us: float
    children: int
    messages: int


class RankCalls:
    """Recorded calls of one rank."""

    def __init__(self, calls: Calls, rank: RankKey) -> None:
        self._calls = calls
        self._reader = calls.reader
        self._is_rank = (CALLS.c.run == self._reader.run, CALLS.c.program == rank[0], CALLS.c.rank == rank[1])
        self._rank = rank

    def places(self) -> list[tuple[int, int, bool]]:
        """Return step and row of each recorded call of the rank, and whether it is abnormal."""
        call = CALLS.c
        rows = self._reader.rows(
            select(call.begin_step, call.begin_row, call.is_anomaly).where(*self._is_rank)
        )
        return [(step, row, bool(is_anomaly)) for step, row, is_anomaly in rows]

    def time_range(self) -> tuple[int, int] | None:
        """Return start of the rank's first and end of its last analysed step, in µs.

        None before there is one.
        """
        step = STEPS.c
        of_rank = (step.run == self._reader.run, step.program == self._rank[0], step.rank == self._rank[1])
        rows = self._reader.rows(select(func.min(step.start_us), func.max(step.end_us)).where(*of_rank))
        start, end = rows[0]
        return None if start is None else (start, end)

    def count(self) -> int:
        """Return how many recorded calls the rank has."""
        return int(self._reader.rows(select(func.count()).select_from(CALLS).where(*self._is_rank))[0][0])

    def within(self, first_us: int, last_us: int, most: int) -> dict[int, JudgedCall]:
        """Return recorded calls of the rank in a range of time, by the numbers of their rows in the store.

        The most severe come first, and there are at most so many.
        """
        call = CALLS.c
        statement = (
            select(*(call[name] for name in _COLUMNS))
            .where(
                *self._is_rank,
                call.entry_us <= last_us,
                or_(call.is_open, call.entry_us + call.inclusive_us >= first_us),
            )
            .order_by(call.severity_us.desc(), call.entry_us, call.id)
            .limit(most)
        )
        functions, rows = self._reader.names.functions, self._reader.rows(statement)
        return {
            number: JudgedCall(
                step, row, bool(is_anomaly), bool(is_open), thread, depth, functions[function], *figures
            )
            for number, step, row, is_anomaly, is_open, thread, depth, function, *figures in rows
        }

    def records(self, numbers: Sequence[int]) -> list[CallRecord]:
        """Return everything kept about calls, by the numbers of their rows; in order of entry."""
        found: list[CallRecord] = []
        for first in range(0, len(numbers), 500):
            rows = self._reader.rows(select_records().where(one_of(CALLS.c.id, numbers[first : first + 500])))
            found += map(self._calls.made().record, rows)
        return sorted(found, key=lambda record: (record.entry_us, record.id))
