"""Contents of the stores of two runs, to be compared row by row."""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chimbuko.provenance.store.numbering import RANK_PATH

Row = dict[str, Any]

NUMBERED = ("functions", "texts", "paths")
"""Tables that number what others refer to, in the order in which it is stored first."""
OF_ONE_RUN = ("runs", "alembic_version")
ARBITRARY: Mapping[str, tuple[str, ...]] = {
    "calls": ("id", "incident_id", "details"),
    "incidents": ("number", "merged_into", "details"),
    "recurrences": ("number", "details"),
}
"""Columns that depend on the order in which calls were stored: numbers of rows and of incidents, and packed
details, which refer to such numbers. What is packed is compared in the records and incidents that are read.
"""
TOTALS = ("function_totals", "rank_totals", "path_totals", "step_totals", "time_totals")
OF_WAITS = ("normal_calls", "first_us", "last_us")
"""Columns of totals in which calls count that were recorded to answer who waited for a delay. While separate
processes are at work, which delays are asked about depends on what has come from which rank by then.
"""
SUMS = ("severity_us", "cost_us")
"""Sums of numbers that are added in the order in which calls were stored."""


class Contents:
    """Contents of the store of one run, with names in place of numbers."""

    def __init__(self, folder: Path) -> None:
        with sqlite3.connect(folder / "provenance.sqlite") as store:
            self._functions = {
                number: (program, name)
                for number, program, name in store.execute("select number, program, name from functions")
            }
            self._texts = dict(store.execute("select number, text from texts").fetchall())
            self._paths = {
                number: (parent, function)
                for number, parent, function in store.execute("select number, parent, function from paths")
            }
            names = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
            self.tables = {
                name: sorted(self._rows(store, name), key=_order)
                for name in names
                if name not in (*NUMBERED, *OF_ONE_RUN)
            }

    def _rows(self, store: sqlite3.Connection, table: str) -> Iterator[Row]:
        found = store.execute(f'select * from "{table}"')
        columns = [column[0] for column in found.description]
        for values in found:
            row = dict(zip(columns, values, strict=True))
            if row.get("is_gone") or row.get("merged_into"):
                # Which incidents there were in between depends on what was explained when.
                continue
            for name in ARBITRARY.get(table, ()):
                del row[name]
            if isinstance(row.get("function"), int):
                row["function"] = self._functions.get(row["function"])
            if "path" in row:
                row["path"] = self._path(row["path"])
            for name in ("counter", "key", "value"):
                if isinstance(row.get(name), int):
                    row[name] = self._texts[row[name]]
            if table in TOTALS:
                if not row["anomalies"]:
                    continue
                for name in OF_WAITS:
                    del row[name]
            if table == "rank_paths":
                paths = np.frombuffer(zlib.decompress(row["paths"]), RANK_PATH)
                row["paths"] = sorted(
                    (self._path(number), *others) for number, *others in paths.tolist() if others
                )
            if table == "node_states":
                del row["counters"]
            yield row

    def _path(self, number: int) -> tuple[Any, ...]:
        functions = []
        while number in self._paths:
            number, function = self._paths[number]
            functions.append(self._functions.get(function))
        return tuple(functions)


def _order(row: Row) -> str:
    return repr([value for value in row.values() if not isinstance(value, float)])


def _call(row: Row) -> tuple[int, ...]:
    return row["program"], row["rank"], row["begin_step"], row["begin_row"]


def differences(first: Path, second: Path, is_judged_again: bool = True) -> list[str]:
    """Return a line for each table, and each row, in which the stores of two runs differ.

    Parameters
    ----------
    first, second
        Folders of the runs.
    is_judged_again
        Whether calls were judged again at the end. Otherwise those that ranks were asked for, as others
        waited for them, have what was usual when the question came: that depends on who was faster.
    """
    ours, theirs = Contents(first).tables, Contents(second).tables

    def key(row: Row) -> tuple[Any, ...]:
        is_asked = not is_judged_again and not row["is_anomaly"]
        return (*_call(row), row["expected_us"], row["seen"]) if is_asked else _call(row)

    lines = [f"tables: {ours.keys() ^ theirs.keys()}"] if ours.keys() != theirs.keys() else []
    calls, others = ({key(row) for row in tables["calls"]} for tables in (ours, theirs))
    common = calls & others
    for tables in (ours, theirs):
        if calls != others:
            # Incidents are what delays have cost those who waited.
            del tables["incidents"], tables["recurrences"]
        tables["calls"] = [row for row in tables["calls"] if row["is_anomaly"] or key(row) in common]
    for table in ours.keys() & theirs.keys():
        if len(ours[table]) != len(theirs[table]):
            lines.append(f"{table}: {len(ours[table])} rows, and {len(theirs[table])}")
            continue
        pairs = zip(ours[table], theirs[table], strict=True)
        differing = [(one, found) for one, other in pairs if (found := _differing(one, other))]
        lines += [f"{table}: {found} of {one}" for one, found in differing]
    return lines


def _differing(one: Row, other: Row) -> dict[str, tuple[Any, Any]]:
    """Return the values that differ, by their columns."""
    return {name: (one[name], other[name]) for name in one if not _is_same(name, one[name], other[name])}


def _is_same(name: str, one: Any, other: Any) -> bool:
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-9) if name in SUMS else bool(one == other)
