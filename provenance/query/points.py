"""Calls as points of a scatter chart: many at once, their numbers in columns and each name once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, literal

from chimbuko.provenance.query.names import RunNames
from chimbuko.provenance.store.tables import CALLS

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

_HASH, _HASHES = 2_654_435_761, 1 << 32


class PointColumns(msgspec.Struct, frozen=True):
    """One entry for each call, in columns of equal length."""

    rank: list[int]
    """Place in ``Points.ranks``."""
    function: list[int]
    """Place in ``Points.functions``."""
    caller: list[int]
    """Of the function that called it; -1 where there is none, or it is not known."""
    step: list[int]
    """In which the call ended, or was last seen."""
    begin_step: list[int]
    """With program, rank and row the call's id."""
    begin_row: list[int]
    thread: list[int]
    entry_us: list[int]
    inclusive_us: list[int]
    """Of an open call, the time so far."""
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
    """The calls that a filter matches, all of them or so many that a chart can show."""

    functions: list[str]
    ranks: list[tuple[int, int]]
    """(Program, rank)."""
    nodes: list[str]
    """Of each of ``ranks``."""
    columns: PointColumns
    """Abnormal calls first, most time lost first; then normal ones."""
    anomalies: int
    """That match; where fewer are here, these are the worst."""
    normal_calls: int
    """That were kept and match; where fewer are here, these are spread evenly over them."""
    analysed: int | None
    """Calls that the analysis saw there; None where it does not count them by what the filter asks."""


def spread(wanted: int, among: int) -> ColumnElement[bool]:
    """Condition on the table of calls that about so many of so many fulfil, spread evenly over them.

    Calls are numbered as they were stored, often an abnormal one and a normal one by turns, so not every n-th
    is taken: multiples of the golden ratio fall evenly for any of them.
    """
    hashed = (CALLS.c.id * literal(_HASH, literal_execute=True)) % literal(_HASHES, literal_execute=True)
    return hashed < literal(_HASHES * wanted // among, literal_execute=True)


def columns_of(rows: Sequence[Any], names: RunNames) -> tuple[PointColumns, list[str], list[tuple[int, int]]]:
    """Columns of rows of ``COLUMNS``, and the functions and ranks that they name."""
    # Without rows there is nothing to tell how many columns there are.
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
    """Each key once, in order of appearance, with its place."""
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}
