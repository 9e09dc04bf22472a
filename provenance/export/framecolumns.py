"""DataFrames made of what the store gives: columns of calls, totals and shifts, and what was around calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from chimbuko.core.calls.recordarrays import NO_CALL
from chimbuko.core.calls.schema import STORED
from chimbuko.provenance.query.aggregates import Total

if TYPE_CHECKING:
    from chimbuko.provenance.compare.runcomparison import Comparison, OneSided
    from chimbuko.provenance.incidents.incidentlist import RecurrenceSummary
    from chimbuko.provenance.incidents.metricfindings import MetricFinding


import warnings
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from sqlalchemy import Engine, select

from chimbuko.core.calls.record import CallRecord, CounterValue, Message
from chimbuko.core.calls.schema import FIELDS, SORTS, Label
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.filters import CallFilter, Sort
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import store_errors
from chimbuko.provenance.store.readonly import Value
from chimbuko.provenance.store.tables import CALLS

Columns = dict[str, npt.NDArray[Any]]

_OF_DTYPE = {"u1": np.int32, "i4": np.int32, "u8": np.int64, "i8": np.int64, "f8": np.float64, "?": np.bool_}
SCALARS: Mapping[str, type] = {
    **{name: _OF_DTYPE[field.dtype] for name, field in STORED.items()},
    "incident_id": np.object_,
}
"""Columns of the table of calls that a DataFrame of calls is made of, with their types."""

_TYPES = {int: "int64", float: "float64", str: "str", bool: "bool"}
_TIMES = ("begin", "entry", "exit", "start", "end", "first", "last", "found", "time")

_CHANGES = (
    *("program", "function", "callers", "verdict", "effect", "low", "high", "raw", "p_value", "lost_us"),
    *("calls_before", "calls_after", "ordinary_before_us", "ordinary_after_us"),
    *("mean_before_us", "mean_after_us", "is_waiting", "has_more_anomalies"),
)
"""Columns of a DataFrame of changes between two runs."""


def joined(pieces: Iterable[Sequence[Sequence[Any]]]) -> Columns:
    """Return the columns ``SCALARS`` of rows that come in pieces."""
    columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in SCALARS}
    for rows in pieces:
        for (name, parts), values in zip(columns.items(), zip(*rows, strict=True), strict=True):
            parts.append(np.array(values, SCALARS[name]))
    return {
        name: np.concatenate(parts) if parts else np.empty(0, SCALARS[name])
        for name, parts in columns.items()
    }


def frame_of(kind: type[msgspec.Struct], structs: Sequence[msgspec.Struct]) -> pd.DataFrame:
    """Return a DataFrame with a row for each struct and a column for each field, typed even without rows."""
    return pd.DataFrame(
        {
            field.name: pd.Series(
                [getattr(struct, field.name) for struct in structs], dtype=_TYPES.get(field.type, "object")
            )
            for field in msgspec.structs.fields(kind)
        }
    )


def described(
    frame: pd.DataFrame, found: Sequence[RecurrenceSummary] | Sequence[MetricFinding]
) -> pd.DataFrame:
    """Return a DataFrame of what findings are made of, by their ids, with their sentences."""
    frame.insert(0, "sentence", pd.Index([one.sentence for one in found], dtype="str"))
    frame.index = pd.Index([one.id for one in found], dtype="str", name="id")
    return frame.astype({"kind": "str"}).astype({"kind": "category"})


def categories(numbers: npt.NDArray[np.integer[Any]], names: Mapping[int, str]) -> pd.Categorical:
    """Return numbers as their names, of which several may be the same.

    Names that do not occur are no category.
    """
    present, places = np.unique(numbers, return_inverse=True)
    of_present = [names[int(number)] for number in present]
    distinct = sorted(set(of_present))
    code_of = {name: code for code, name in enumerate(distinct)}
    codes = np.array([code_of[name] for name in of_present], np.int32)
    return pd.Categorical.from_codes(codes[places], pd.Index(distinct, dtype="str"))


def nodes_of(
    programs: npt.NDArray[np.integer[Any]],
    ranks: npt.NDArray[np.integer[Any]],
    nodes: Mapping[tuple[int, int], str],
) -> pd.Categorical:
    """Return the name of the node of each (program, rank)."""
    streams, places = np.unique((programs.astype(np.int64) << 32) | ranks, return_inverse=True)
    names = {at: nodes.get((int(key) >> 32, int(key) & 0xFFFFFFFF), "") for at, key in enumerate(streams)}
    return categories(places, names)


def call_ids(columns: Columns, step: str, row: str) -> list[str]:
    """Return ids of calls by the columns with the step and row where they begin.

    An id is empty for ``NO_CALL``.
    """
    places = (columns[name].tolist() for name in ("program", "rank", step, row))
    return [
        "" if begin == NO_CALL else f"{program}:{rank}:{begin}:{at}"
        for program, rank, begin, at in zip(*places, strict=True)
    ]


def with_times(frame: pd.DataFrame, zero_us: int) -> pd.DataFrame:
    """Replace ``entry_us`` and the like, µs since 1970, by ``entry_time`` and ``entry_s`` since ``zero_us``.

    The end of an open call, which is 0, is missing in both.
    """
    columns: dict[str, Any] = {}
    for name, values in frame.items():
        kind = str(name).removesuffix("_us")
        if kind not in _TIMES:
            columns[str(name)] = values
            continue
        time_us = values.to_numpy()
        times = time_us.astype("datetime64[us]")
        times[time_us == 0] = np.datetime64("NaT")
        label = kind if kind == "time" else f"{kind}_time"
        columns[label] = pd.Series(times, frame.index).dt.tz_localize(UTC)
        columns[f"{kind}_s"] = np.where(time_us == 0, np.nan, (time_us - zero_us) / 1e6)
    return pd.DataFrame(columns, index=frame.index, copy=False)


def totals_frame(totals: Sequence[Total]) -> pd.DataFrame:
    """Return totals as rows, without the columns that they do not have in common."""
    frame = frame_of(Total, totals).infer_objects()
    unknown = [name for name in frame if len(frame) and frame[name].isna().all()]
    return frame.drop(columns=unknown)


def shifts_frame(found: Comparison, by: Literal["function", "path"]) -> pd.DataFrame:
    """Return what changed between two runs, ``Comparison.functions`` or ``Comparison.paths``, as rows."""
    rows = [
        {
            "program": shift.program,
            "function": shift.name,
            "callers": tuple(shift.callers),
            "decided_by": shift.decided_by,
            **msgspec.structs.asdict(shift.decisive),
            **_both("calls", "", shift.calls),
            **_both("ordinary", "_us", shift.ordinary_us),
            **_both("mean", "_us", shift.mean_us),
            "is_waiting": shift.is_waiting,
            "has_more_anomalies": shift.has_more_anomalies,
        }
        for shift in (found.functions if by == "function" else found.paths)
    ]
    if by == "function":
        rows += [_one_sided(item, "new", (0, item.calls)) for item in found.new]
        rows += [_one_sided(item, "vanished", (item.calls, 0)) for item in found.vanished]
    names = [name for name in _CHANGES if by == "path" or name != "callers"]
    frame = pd.DataFrame(rows, columns=pd.Index(names))
    return frame.astype({"function": "category", "verdict": "category"})


def _one_sided(item: OneSided, verdict: str, calls: tuple[int, int]) -> dict[str, Any]:
    return {
        "program": item.program,
        "function": item.name,
        "verdict": verdict,
        **_both("calls", "", calls),
        "is_waiting": False,
        "has_more_anomalies": False,
    }


def _both(name: str, unit: str, values: tuple[Any, Any]) -> dict[str, Any]:
    return {f"{name}_before{unit}": values[0], f"{name}_after{unit}": values[1]}


ROWS_AT_ONCE = 10_000
"""Rows of calls that are turned into columns at a time."""

_BEFORE = ("program", "rank", "thread", "function", "step", "entry_us")
_AS_THEY_ARE = (*(name for name in FIELDS if name in STORED and name not in _BEFORE), "is_open", "path")
"""Columns of calls that follow those that come first."""

Detail = TypeVar("Detail", Message, CounterValue)
Rows = TypeVar("Rows", list[tuple[Value, ...]], pd.DataFrame)


def filter_of(filters: Mapping[str, Any]) -> CallFilter:
    """Return the filter with the given fields, for abnormal calls where no ``label`` is among them.

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
    """Return recorded calls by id, at most ``limit``; warn where there are more."""
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
    """Yield one recorded call, or the first abnormal ones of a filter; warn where there are more."""
    if call_id is not None:
        yield provenance.calls.record(call_id)
        return
    found = provenance.calls.records(filter_of(filters))
    yield from islice(found, limit)
    if next(found, None) is not None:
        _warn(limit)


def details_frame(kind: type[Detail], found: Iterable[tuple[CallRecord, Detail]]) -> pd.DataFrame:
    """Return messages or counter values with the recorded calls in whose windows they are."""
    pairs = list(found)
    frame = frame_of(kind, [detail for _, detail in pairs])
    frame.insert(0, "recorded_id", pd.Series([record.id for record, _ in pairs], dtype="str"))
    values = pd.Series([(record.program, record.rank, value) for record, value in pairs], dtype="object")
    frame["is_first"] = ~values.duplicated()
    return frame.astype({"kind" if kind is Message else "counter": "category"})


def nodes_by_rank(provenance: Provenance) -> dict[tuple[int, int], str]:
    """Return the node of each (program, rank)."""
    return {(stream.program, stream.rank): stream.node for stream in provenance.health()}


def limited(rows: Rows, limit: int) -> Rows:
    """Return rows up to the limit; warn where there are more."""
    if len(rows) <= limit:
        return rows
    _warn(limit)
    return rows[:limit]


def _scalars(
    engine: Engine, provenance: Provenance, wanted: CallFilter, sort: Sort, descending: bool, limit: int
) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield rows of ``SCALARS``, in pieces."""
    if sort not in SORTS:
        raise ConfigError(f"sort {sort!r}: not an order of calls; one of {', '.join(SORTS)}")
    order = [column.desc() if descending else column.asc() for column in (CALLS.c[sort], CALLS.c.id)]
    statement = select(*(CALLS.c[name] for name in SCALARS)).where(provenance.calls.condition(wanted))
    with store_errors(engine), engine.connect() as connection:
        yield from connection.execute(statement.order_by(*order).limit(limit)).partitions(ROWS_AT_ONCE)


def _warn(limit: int) -> None:
    warnings.warn(f"the first {limit:,} only; a higher limit= lets more through", stacklevel=4)
