"""What a scatter chart of calls asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sqlalchemy import ColumnElement, func, select

from chimbuko.arrays import RankKey
from chimbuko.provenance.query.calls import CallQueries
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.planner import of_ranks, with_index, within
from chimbuko.provenance.query.points import COLUMNS, Points, columns_of, spread
from chimbuko.provenance.query.rows import AnyRow
from chimbuko.provenance.store.tables import ALL_RANKS, CALLS, STEP_LEVELS, STEPS

MOST_POINTS = 30_000
"""A chart of these is drawn in milliseconds, and read from a store in 0.2 s."""
_COUNTED = frozenset({"label", "program", "rank", "node", "step_min", "step_max"})
"""Fields of a filter by which analysed calls are counted."""


LabelWanted = Literal["anomaly", "normal"]


class PointQueries(CallQueries):
    """Calls as points."""

    def points(self, wanted: CallFilter, most: int = MOST_POINTS) -> Points:
        """The calls that a filter matches; of more than ``most`` the worst, and normal ones between."""
        anomalies = self._first(wanted, "anomaly", most)
        found = self._count_unless(wanted, "anomaly", anomalies, most)
        room = most - len(anomalies)
        normal = self._first(wanted, "normal", room)
        normal_calls = self._count_unless(wanted, "normal", normal, room)
        if normal_calls > len(normal) and room:
            normal = self._first(wanted, "normal", room, spread(room, normal_calls))
        columns, functions, ranks = columns_of([*anomalies, *normal], self._names)
        nodes = self._names.nodes_of_ranks() if ranks else {}
        return Points(
            functions=functions,
            ranks=ranks,
            nodes=[nodes.get(key, "") for key in ranks],
            columns=columns,
            anomalies=found,
            normal_calls=normal_calls,
            analysed=self._analysed(wanted),
        )

    def _first(
        self, wanted: CallFilter, label: LabelWanted, most: int, *conditions: ColumnElement[bool]
    ) -> list[AnyRow]:
        """Calls with this label, most time lost first."""
        if wanted.label not in (None, label) or most == 0:
            return []
        parts = self._searches(replace(wanted, label=label))
        order = CALLS.c.severity_us.desc(), CALLS.c.id.desc()
        rows: list[AnyRow] = []
        for part, counts in zip(parts, self._places_counted(parts), strict=True):
            statement = (
                select(*COLUMNS).where(part.all_conditions(), *conditions).order_by(*order).limit(most)
            )
            rows += self._rows(with_index(statement, part.best("severity_us", counts)))
        return sorted(rows, key=lambda row: row.severity_us, reverse=True)[:most]

    def _count_unless(self, wanted: CallFilter, label: LabelWanted, rows: Sequence[AnyRow], most: int) -> int:
        """How many have this label: counted where there may be more than were read."""
        if wanted.label not in (None, label):
            return 0
        return len(rows) if len(rows) < most else self.count(replace(wanted, label=label))

    def _analysed(self, wanted: CallFilter) -> int | None:
        """Calls that the analysis saw on the filter's ranks, in its steps."""
        if any(value is not None for name, value in vars(wanted).items() if name not in _COUNTED):
            return None
        ranks = self._ranks(wanted)
        if ranks is None:
            of, steps = STEP_LEVELS.c, STEP_LEVELS.c.bucket
            conditions = [of.level == 0, of.rank == ALL_RANKS]
            if wanted.program is not None:
                conditions.append(of.program == wanted.program)
        else:
            of, steps = STEPS.c, STEPS.c.step
            conditions = [of_ranks(ranks, of)]
        conditions += within(steps, wanted.step_min, wanted.step_max)
        rows = self._rows(
            select(func.coalesce(func.sum(of.calls), 0)).where(of.run == self._run, *conditions)
        )
        return int(rows[0][0])

    def _ranks(self, wanted: CallFilter) -> Sequence[RankKey] | None:
        """Those that the filter names, by number or node; None where it names none."""
        if wanted.rank is None and wanted.node is None:
            return None
        on_node = self._names.resolve(CallFilter(node=wanted.node)).ranks
        return [
            (program, rank)
            for program, rank in (self._names.nodes_of_ranks() if on_node is None else on_node)
            if wanted.rank in (None, rank) and wanted.program in (None, program)
        ]
