"""Calls as points of a scatter chart: many at once, their numbers in columns and each name once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, func, literal, select

from chimbuko.core.arrays import RankKey
from chimbuko.provenance.query.calls import Calls
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.names import RunNames
from chimbuko.provenance.query.planner import of_ranks, with_index, within
from chimbuko.provenance.query.rows import AnyRow
from chimbuko.provenance.store.tables import ALL_RANKS, CALLS, STEP_LEVELS, STEPS

SAME = (
    "step",
    "begin_step",
    "begin_row",
    "thread",
    "entry_us",
    "inclusive_us",
    "exclusive_us",
    "expected_us",
    "severity_us",
    "score",
    "children",
    "messages_count",
    "is_anomaly",
    "is_gpu",
    "is_open",
)
"""Columns of points that stand in the table of calls as they are."""
COLUMNS = tuple(CALLS.c[name] for name in (*SAME, "program", "rank", "function", "path"))

_SEVERITY = SAME.index("severity_us")
_HASH, _HASHES = 2_654_435_761, 1 << 32


class PointColumns(msgspec.Struct, frozen=True):
    """One entry for each call, in columns of equal length."""

    rank: list[int]
    """Index into ``Points.ranks``."""
    function: list[int]
    """Index into ``Points.functions``."""
    caller: list[int]
    """Index of the function that called it; -1 if there is none, or it is not known."""
    step: list[int]
    """Step in which the call ended, or was last seen."""
    begin_step: list[int]
    """Step in which the call began; with program, rank and row it makes the call's id."""
    begin_row: list[int]
    thread: list[int]
    entry_us: list[int]
    inclusive_us: list[int]
    """Inclusive runtime; the time so far of an open call."""
    exclusive_us: list[int]
    expected_us: list[float]
    severity_us: list[float]
    score: list[float]
    children: list[int]
    messages_count: list[int]
    is_anomaly: list[bool]
    is_gpu: list[bool]
    is_open: list[bool]


class Points(msgspec.Struct, frozen=True):
    """Points of the calls that a filter matches: all of them, or as many as a chart can show."""

    functions: list[str]
    ranks: list[tuple[int, int]]
    """Ranks, as (program, rank)."""
    nodes: list[str]
    """Node of each of ``ranks``."""
    columns: PointColumns
    """Columns of the points: abnormal calls first, most time lost first; then normal ones."""
    anomalies: int
    """Number of abnormal calls that match; where fewer are here, these are the worst."""
    normal_calls: int
    """Number of recorded normal calls that match; where fewer are here, these are spread evenly over them."""
    analysed: int | None
    """Number of calls that the analysis saw there; None if it does not count them by what the filter
    asks."""


def spread(wanted: int, among: int) -> ColumnElement[bool]:
    """Return a condition that about ``wanted`` of ``among`` calls fulfil, spread evenly.

    Calls are numbered as they were stored, often an abnormal one and a normal one by turns, so not every n-th
    is taken: multiples of the golden ratio fall evenly for any of them.
    """
    hashed = (CALLS.c.id * literal(_HASH, literal_execute=True)) % literal(_HASHES, literal_execute=True)
    return hashed < literal(_HASHES * wanted // among, literal_execute=True)


def columns_of(rows: Sequence[Any], names: RunNames) -> tuple[PointColumns, list[str], list[tuple[int, int]]]:
    """Return columns of rows of ``COLUMNS``, and the functions and ranks that they name."""
    # Without rows the number of columns would not be known.
    values = list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in COLUMNS]
    same = dict(zip(SAME, values, strict=False))
    programs, ranks, functions, paths = values[len(SAME) :]
    rank_places = _places(zip(programs, ranks, strict=True))
    callers = {path: _caller(names.paths.functions(path)) for path in set(paths)}
    function_places = _places([*functions, *(caller for caller in callers.values() if caller is not None)])
    columns = PointColumns(
        rank=[rank_places[key] for key in zip(programs, ranks, strict=True)],
        function=[function_places[number] for number in functions],
        caller=[-1 if (of := callers[path]) is None else function_places[of] for path in paths],
        **same,
    )
    return columns, [names.functions[number] for number in function_places], list(rank_places)


def _caller(path: Sequence[int]) -> int | None:
    return path[-2] if len(path) > 1 else None


def _places(keys: Iterable[Any]) -> dict[Any, int]:
    """Return each key once, in order of appearance, with its index."""
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


MOST_POINTS = 30_000
"""Most points of a chart: it is drawn in milliseconds, and read from a store in 0.2 s."""
_COUNTED = frozenset({"label", "program", "rank", "rank_min", "rank_max", "node", "step_min", "step_max"})
"""Fields of a filter by which analysed calls are counted."""
LabelWanted = Literal["anomaly", "normal"]


def points(calls: Calls, wanted: CallFilter, most: int = MOST_POINTS) -> Points:
    """Return the points of the calls that a filter matches.

    Of more than ``most`` the worst, and some normal ones.
    """
    anomalies = _first(calls, wanted, "anomaly", most)
    found = _count_unless(calls, wanted, "anomaly", anomalies, most)
    room = most - len(anomalies)
    normal = _first(calls, wanted, "normal", room)
    normal_calls = _count_unless(calls, wanted, "normal", normal, room)
    if normal_calls > len(normal) and room:
        normal = _first(calls, wanted, "normal", room, spread(room, normal_calls))
    columns, functions, ranks = columns_of([*anomalies, *normal], calls.reader.names)
    nodes = calls.reader.names.nodes_of_ranks() if ranks else {}
    return Points(
        functions=functions,
        ranks=ranks,
        nodes=[nodes.get(key, "") for key in ranks],
        columns=columns,
        anomalies=found,
        normal_calls=normal_calls,
        analysed=_analysed(calls, wanted),
    )


def _first(
    calls: Calls, wanted: CallFilter, label: LabelWanted, most: int, *conditions: ColumnElement[bool]
) -> list[AnyRow]:
    """Return calls with this label, most time lost first."""
    if wanted.label not in (None, label) or most == 0:
        return []
    parts = calls.searches(msgspec.structs.replace(wanted, label=label))
    order = CALLS.c.severity_us.desc(), CALLS.c.id.desc()
    rows: list[AnyRow] = []
    for part, counts in zip(parts, calls.calls_by_scan(parts), strict=True):
        statement = select(*COLUMNS).where(part.all_conditions(), *conditions).order_by(*order).limit(most)
        rows += calls.reader.rows(with_index(statement, part.best("severity_us", counts)))
    return sorted(rows, key=itemgetter(_SEVERITY), reverse=True)[:most]


def _count_unless(
    calls: Calls, wanted: CallFilter, label: LabelWanted, rows: Sequence[AnyRow], most: int
) -> int:
    """Return how many calls have this label: counted where there may be more than were read."""
    if wanted.label not in (None, label):
        return 0
    return len(rows) if len(rows) < most else calls.count(msgspec.structs.replace(wanted, label=label))


def _analysed(calls: Calls, wanted: CallFilter) -> int | None:
    """Return how many calls the analysis saw on the filter's ranks, in its steps."""
    if wanted.given().keys() - _COUNTED:
        return None
    ranks = _ranks(calls, wanted)
    if ranks is None:
        of, steps = STEP_LEVELS.c, STEP_LEVELS.c.bucket
        conditions = [of.level == 0, of.rank == ALL_RANKS]
        if wanted.program is not None:
            conditions.append(of.program == wanted.program)
    else:
        of, steps = STEPS.c, STEPS.c.step
        conditions = [of_ranks(ranks, of)]
    conditions += within(steps, wanted.step_min, wanted.step_max)
    rows = calls.reader.rows(
        select(func.coalesce(func.sum(of.calls), 0)).where(of.run == calls.reader.run, *conditions)
    )
    return int(rows[0][0])


def _ranks(calls: Calls, wanted: CallFilter) -> Sequence[RankKey] | None:
    """Return the ranks that the filter names, by number or node; None if it names none."""
    if not {"rank", "rank_min", "rank_max", "node"} & wanted.given().keys():
        return None
    on_node = calls.reader.names.resolve(CallFilter(node=wanted.node)).ranks
    return [
        (program, rank)
        for program, rank in (calls.reader.names.nodes_of_ranks() if on_node is None else on_node)
        if wanted.rank in (None, rank)
        and wanted.program in (None, program)
        and (wanted.rank_min or 0) <= rank
        and (wanted.rank_max is None or rank <= wanted.rank_max)
    ]
