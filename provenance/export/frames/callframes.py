"""Recorded calls, and what was around them, as DataFrames: read in pieces, and never more than asked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sqlalchemy import Engine, select

from chimbuko.core.calls.record import CallRecord, CounterValue, Message
from chimbuko.core.calls.schema import FIELDS, SORTS, STORED, Label
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.export.frames.columns import (
    SCALARS,
    call_ids,
    categories,
    frame_of,
    joined,
    nodes_of,
)
from chimbuko.provenance.query.filters import CallFilter, Sort
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.readonly import Value
from chimbuko.provenance.store.tables import CALLS

ROWS_AT_ONCE = 10_000
"""Rows of calls that are turned into columns at a time."""

_BEFORE = ("program", "rank", "thread", "function", "step", "entry_us")
_AS_THEY_ARE = (*(name for name in FIELDS if name in STORED and name not in _BEFORE), "is_open", "path")
"""Columns of calls, behind those that come first."""

Detail = TypeVar("Detail", Message, CounterValue)
Rows = TypeVar("Rows", list[tuple[Value, ...]], pd.DataFrame)


def filter_of(filters: Mapping[str, Any]) -> CallFilter:
    """The filter with the given fields; of abnormal calls where there is no ``label`` among them.

    Raises
    ------
    ConfigError
        There is no such field.
    """
    try:
        return CallFilter(**filters)
    except TypeError:
        known = CallFilter.__struct_fields__
        unknown = ", ".join(name for name in filters if name not in known)
        raise ConfigError(f"{unknown}: not a filter of calls; there are {', '.join(known)}") from None


def calls_frame(
    engine: Engine, provenance: Provenance, wanted: CallFilter, sort: Sort, descending: bool, limit: int
) -> pd.DataFrame:
    """Recorded calls, by id; at most ``limit``, and a warning where there are more."""
    columns = joined(_scalars(engine, provenance, wanted, sort, descending, limit + 1))
    names = {number: name for (_, name), number in provenance.function_numbers().items()}
    labels = pd.Index([str(Label.NORMAL), str(Label.ANOMALY)], dtype="str")
    frame = pd.DataFrame(
        {
            "label": pd.Categorical.from_codes(columns["is_anomaly"].astype(np.int8), labels),
            **{name: columns[name] for name in ("program", "rank", "thread")},
            "node": nodes_of(columns["program"], columns["rank"], nodes_by_rank(provenance)),
            "function": categories(columns["function"], names),
            "step": columns["step"],
            "entry_us": columns["entry_us"],
            "exit_us": np.where(columns["is_open"], 0, columns["entry_us"] + columns["inclusive_us"]),
            **{name: columns[name] for name in _AS_THEY_ARE},
            "incident_id": pd.array([text or "" for text in columns["incident_id"]], dtype="str"),
            "launch_id": pd.array(call_ids(columns, "launch_step", "launch_row"), dtype="str"),
        },
        index=pd.Index(call_ids(columns, "begin_step", "begin_row"), dtype="str", name="id"),
        copy=False,
    )
    return limited(frame, limit)


def records(
    provenance: Provenance, call_id: str | None, filters: Mapping[str, Any], limit: int
) -> Iterator[CallRecord]:
    """One recorded call, or the first abnormal ones of a filter; a warning where there are more."""
    if call_id is not None:
        yield provenance.calls.record(call_id)
        return
    found = provenance.calls.records(filter_of(filters))
    yield from islice(found, limit)
    if next(found, None) is not None:
        _warn(limit)


def details_frame(kind: type[Detail], found: Iterable[tuple[CallRecord, Detail]]) -> pd.DataFrame:
    """Messages or counter values with the recorded calls in whose windows they are."""
    pairs = list(found)
    frame = frame_of(kind, [detail for _, detail in pairs])
    frame.insert(0, "recorded_id", pd.Series([record.id for record, _ in pairs], dtype="str"))
    values = pd.Series([(record.program, record.rank, value) for record, value in pairs], dtype="object")
    frame["is_first"] = ~values.duplicated()
    return frame.astype({"kind" if kind is Message else "counter": "category"})


def nodes_by_rank(provenance: Provenance) -> dict[tuple[int, int], str]:
    """The node of each (program, rank)."""
    return {(stream.program, stream.rank): stream.node for stream in provenance.health()}


def limited(rows: Rows, limit: int) -> Rows:
    """Rows up to the limit; a warning where there are more."""
    if len(rows) <= limit:
        return rows
    _warn(limit)
    return rows[:limit]


def _scalars(
    engine: Engine, provenance: Provenance, wanted: CallFilter, sort: Sort, descending: bool, limit: int
) -> Iterator[Sequence[Sequence[Any]]]:
    """Rows of ``SCALARS``, in pieces."""
    if sort not in SORTS:
        raise ConfigError(f"sort {sort!r}: not an order of calls; one of {', '.join(SORTS)}")
    order = [column.desc() if descending else column.asc() for column in (CALLS.c[sort], CALLS.c.id)]
    statement = select(*(CALLS.c[name] for name in SCALARS)).where(provenance.calls.condition(wanted))
    with store_errors(engine), engine.connect() as connection:
        yield from connection.execute(statement.order_by(*order).limit(limit)).partitions(ROWS_AT_ONCE)


def _warn(limit: int) -> None:
    warnings.warn(f"the first {limit:,} only; a higher limit= lets more through", stacklevel=4)
