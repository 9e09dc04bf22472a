"""Sums over recorded calls by function, rank, node, call path or time.

Where the sums that the writer keeps tell apart all that a filter asks for, these are read; otherwise the
calls that match are summed up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, replace
from sqlalchemy import ColumnElement, Table, func, literal, select

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.names import RunNames
from chimbuko.provenance.query.planner import Resolved, Search, of_ranks, one_of, with_index, within
from chimbuko.provenance.query.rows import AnySelect
from chimbuko.provenance.store.coarserlevels import TIME_LEVELS_US
from chimbuko.provenance.store.tables import (
    CALLS,
    FUNCTION_TOTALS,
    PATH_TOTALS,
    RANK_TOTALS,
    STEP_TOTALS,
    TIME_TOTALS,
)

By = Literal["function", "rank", "node", "path", "step", "time"]
MOST_INTERVALS = 200
"""Most intervals into which time is divided, unless a length is given: as many as a chart shows."""


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the abnormal calls that have something in common; what they do not have in common is None."""

    program: int | None = None
    function: str | None = None
    rank: int | None = None
    node: str | None = None
    path: int | None = None
    """Number of the call path, as ``CallFilter.path`` takes it."""
    functions: list[str] | None = None
    """Functions on the path, outermost first."""
    step: int | None = None
    start_us: int | None = None
    """Start of the interval of time, in µs since the epoch."""
    anomalies: int
    severity_us: float
    highest_severity_us: float
    highest_score: float
    first_us: int
    """Entry of the first of these calls."""
    last_us: int


Key = tuple[int, ...]


class Sums(msgspec.Struct):
    """Sums of one group, while they are made."""

    anomalies: int
    severity_us: float
    highest_severity_us: float
    highest_score: float
    first_us: int
    last_us: int

    def merge(self, other: Sums) -> None:
        """Add the sums of a part of the same group."""
        self.anomalies += other.anomalies
        self.severity_us += other.severity_us
        self.highest_severity_us = max(self.highest_severity_us, other.highest_severity_us)
        self.highest_score = max(self.highest_score, other.highest_score)
        self.first_us = min(self.first_us, other.first_us)
        self.last_us = max(self.last_us, other.last_us)


class _Group(msgspec.Struct, frozen=True):
    """Grouping of calls by columns of the table of calls, which a table of sums has as its key."""

    table: Table
    keys: tuple[str, ...]
    fields: frozenset[str] = frozenset()
    """Fields of a filter that the table of sums tells apart."""


_BY_RANK = _Group(
    RANK_TOTALS, ("program", "rank"), frozenset({"program", "rank", "rank_min", "rank_max", "node"})
)
_GROUPS: dict[By, _Group] = {
    "function": _Group(FUNCTION_TOTALS, ("function",), frozenset({"function"})),
    "rank": _BY_RANK,
    "node": _BY_RANK,
    "path": _Group(PATH_TOTALS, ("path",), frozenset({"path", "through"})),
    "step": _Group(STEP_TOTALS, ("step",), frozenset({"step_min", "step_max"})),
}
"""Groupings by all but time."""


def kept_sums(by: By, wanted: CallFilter, resolved: Resolved, width_us: int) -> AnySelect | None:
    """Return a statement that reads the sums that the writer keeps.

    None where they do not say what is wanted.
    """
    if by == "time":
        return _kept_by_time(resolved.run, width_us) if not wanted.given() else None
    group = _GROUPS[by]
    if not wanted.given().keys() <= group.fields:
        return None
    column = group.table.c
    statement = select(
        *(column[name] for name in group.keys), *(column[name] for name in Sums.__annotations__)
    )
    return statement.where(column.run == resolved.run, column.anomalies > 0, *_same(wanted, resolved, column))


def counted_by(wanted: CallFilter) -> By | None:
    """Return by which sums the calls that match can be counted; None if by none."""
    fields = wanted.given().keys() - {"label"}
    return next((by for by, group in _GROUPS.items() if fields <= group.fields), None)


def kept_count(by: By, wanted: CallFilter, resolved: Resolved) -> AnySelect:
    """Return a statement that adds up how many calls match."""
    column = _GROUPS[by].table.c
    counts = {"anomaly": column.anomalies, "normal": column.normal_calls}
    counted = counts[wanted.label] if wanted.label else column.anomalies + column.normal_calls
    return select(func.coalesce(func.sum(counted), 0)).where(
        column.run == resolved.run, *_same(wanted, resolved, column)
    )


def made_sums(by: By, search: Search, index: str | None, width_us: int) -> AnySelect:
    """Return a statement that sums up the calls of a search."""
    call = CALLS.c
    keys: tuple[Any, ...]
    if by == "time":
        keys = (call.entry_us // literal(width_us, literal_execute=True),)
    else:
        keys = tuple(call[name] for name in _GROUPS[by].keys)
    sums = (
        func.count(),
        func.sum(call.severity_us),
        func.max(call.severity_us),
        func.max(call.score),
        func.min(call.entry_us),
        func.max(call.entry_us),
    )
    statement = select(*keys, *sums).where(search.all_conditions()).group_by(*keys)
    return statement if index is None else with_index(statement, index)


def merged(by: By, rows: Iterable[Sequence[Any]]) -> dict[Key, Sums]:
    """Return rows of the statements above by key; several of the same key become one."""
    found: dict[Key, Sums] = {}
    for row in rows:
        key, sums = _split(by, row)
        if key in found:
            found[key].merge(sums)
        else:
            found[key] = sums
    return found


def named(by: By, sums: dict[Key, Sums], names: RunNames, width_us: int) -> list[Total]:
    """Return sums with names: steps and times in their order, others by what they cost."""
    if by == "node":
        nodes = names.nodes_of_ranks()
        on_nodes: dict[str, Sums] = {}
        for (program, rank), of_rank in sums.items():
            node = nodes.get((program, rank), "")
            if node in on_nodes:
                on_nodes[node].merge(of_rank)
            else:
                on_nodes[node] = replace(of_rank)
        totals = [Total(node=node, **asdict(of_node)) for node, of_node in on_nodes.items()]
    elif by == "rank":
        totals = [Total(program=key[0], rank=key[1], **asdict(of_rank)) for key, of_rank in sums.items()]
    elif by in ("step", "time"):
        ordered = sorted(sums.items())
        if by == "step":
            return [Total(step=key[0], **asdict(of_step)) for key, of_step in ordered]
        return [Total(start_us=key[0] * width_us, **asdict(of_time)) for key, of_time in ordered]
    else:
        programs = names.programs_of_functions()
        describe = {"function": _of_function, "path": _of_path}[by]
        totals = [describe(key[0], of_key, names, programs) for key, of_key in sums.items()]
    return sorted(totals, key=lambda total: total.severity_us, reverse=True)


def _of_function(function: int, sums: Sums, names: RunNames, programs: dict[int, int]) -> Total:
    return Total(program=programs.get(function), function=names.functions[function], **asdict(sums))


def _of_path(path: int, sums: Sums, names: RunNames, programs: dict[int, int]) -> Total:
    functions = names.paths.functions(path)
    return Total(
        program=programs.get(functions[-1]) if functions else None,
        function=names.functions[functions[-1]] if functions else None,
        path=path,
        functions=[names.functions[function] for function in functions],
        **asdict(sums),
    )


def time_width_us(by: By, wanted_us: int | None, length_us: int) -> int:
    """Return the length of intervals of time, in whole seconds: what is wanted, or what makes at most 200."""
    second = TIME_LEVELS_US[0]
    width_us = wanted_us or -(-length_us // MOST_INTERVALS)
    return max(second, -(-width_us // second) * second) if by == "time" else second


def _same(wanted: CallFilter, resolved: Resolved, column: Any) -> list[ColumnElement[bool]]:
    """Return what a filter asks for as conditions on a table of sums that has all of that."""
    equal = ("program", "rank", "path")
    conditions: list[ColumnElement[bool]] = [
        column[name] == getattr(wanted, name) for name in equal if getattr(wanted, name) is not None
    ]
    if resolved.functions is not None:
        conditions.append(one_of(column.function, resolved.functions))
    if resolved.paths is not None:
        conditions.append(one_of(column.path, resolved.paths))
    if resolved.ranks is not None:
        conditions.append(of_ranks(resolved.ranks, column))
    conditions += within(column.get("rank"), wanted.rank_min, wanted.rank_max)
    return conditions + list(within(column.get("step"), wanted.step_min, wanted.step_max))


def _kept_by_time(run: int, width_us: int) -> AnySelect:
    # The coarser level serves widths that are multiples of its own.
    level = max(n for n, length_us in enumerate(TIME_LEVELS_US) if width_us % length_us == 0)
    total = TIME_TOTALS.c
    each = literal(width_us // TIME_LEVELS_US[level], literal_execute=True)
    sums = (
        func.sum(total.anomalies),
        func.sum(total.severity_us),
        func.max(total.highest_severity_us),
        func.max(total.highest_score),
        func.min(total.first_us),
        func.max(total.last_us),
    )
    statement = select(total.bucket // each, *sums).group_by(total.bucket // each)
    return statement.where(total.run == run, total.level == level, total.anomalies > 0)


def _split(by: By, row: Sequence[Any]) -> tuple[Key, Sums]:
    keys = 1 if by == "time" else len(_GROUPS[by].keys)
    return tuple(row[:keys]), Sums(int(row[keys]), *row[keys + 1 :])
