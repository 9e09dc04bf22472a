"""Writes recorded calls: of several revisions the newest stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from chimbuko.core.calls.schema import INDEXED
from chimbuko.provenance.store.encode import CALL_COLUMNS, CALL_KEY
from chimbuko.provenance.store.statements import Change, insert, rows_of
from chimbuko.provenance.store.tables import CALLS
from chimbuko.provenance.write.rollups import CallChanges, Counted

Row = tuple[Any, ...]

_KEY = CALL_KEY[1:]
_AGE = ("revision", "is_open", "inclusive_us")
_SEARCHED = tuple(dict.fromkeys((*Counted._fields, "is_open", "is_gpu", *INDEXED)))
"""Columns that stand in an index or in totals."""
_OTHERS = tuple(name for name in CALL_COLUMNS if name not in (*CALL_KEY, *_SEARCHED))
_VERDICT = (
    *("is_anomaly", "is_relabelled", "score", "severity_us"),
    *("expected_us", "spread_us", "seen", "model_version"),
)
"""Columns of the verdict, which all revisions of a call that has ended share, unless it was judged again in
the store."""
_STORED = ("id", *_KEY, *_AGE, *_SEARCHED, *_VERDICT)


def _values(columns: Sequence[str], of: Sequence[str]) -> itemgetter[Row]:
    return itemgetter(*(columns.index(name) for name in of))


_key, _reported, _searched, _others, _counted = (
    _values(CALL_COLUMNS, names) for names in (_KEY, _AGE, _SEARCHED, _OTHERS, Counted._fields)
)
_stored_key, _stored_version, _stored_searched, _stored_counted, _stored_verdict = (
    _values(_STORED, names) for names in (_KEY, _AGE, _SEARCHED, Counted._fields, _VERDICT)
)
_VERDICT_AT = [CALL_COLUMNS.index(name) for name in _VERDICT]
# Most second revisions change nothing that is searched by: to leave seven indexes alone halves their cost.
_CHANGE_OTHERS = Change(CALLS, _OTHERS, ("id",))
_CHANGE_ALL = Change(CALLS, (*_SEARCHED, *_OTHERS), ("id",))


def write_calls(connection: Connection, run: int, rows: Iterable[Row]) -> CallChanges:
    """Write rows of ``CALL_COLUMNS``, and return what is to be counted.

    Of several revisions of a call the highest stays, in whatever order they come; of several reports of an
    open call, which are all revision 0, the one with the longest time. The verdict on a call that has ended
    stays: its last revision may come from a node that was cut off, after the run's final judgement.
    """
    newest: dict[Row, Row] = {}
    for row in rows:
        before = newest.get(key := _key(row))
        if before is None or _age(*_reported(row)) > _age(*_reported(before)):
            newest[key] = row
    kept = rows_of(connection, CALLS, _STORED, run, _KEY, newest, are_to_change=True)
    stored = {_stored_key(row): row for row in kept}
    new = [newest[key] for key in sorted(newest.keys() - stored.keys())]
    changes = [
        (before, _judged_as(before, newest[key]))
        for key, before in stored.items()
        if _age(*_reported(newest[key])) > _age(*_stored_version(before))
    ]
    insert(connection, CALLS, CALL_COLUMNS, new)
    _change(connection, changes)
    counted = [(Counted(*_stored_counted(before)), Counted(*_counted(after))) for before, after in changes]
    return CallChanges(
        [Counted(*_counted(row)) for row in new],
        [(before, after) for before, after in counted if before != after],
    )


def _age(revision: int, is_open: bool, inclusive_us: int) -> tuple[int, bool, int]:
    return revision, not is_open, inclusive_us


def _judged_as(stored: Row, row: Row) -> Row:
    """Return the row with the stored verdict, where that is of a call that had ended."""
    _, is_open, _ = _stored_version(stored)
    if is_open:
        return row
    judged = list(row)
    for at, value in zip(_VERDICT_AT, _stored_verdict(stored), strict=True):
        judged[at] = value
    return tuple(judged)


def _change(connection: Connection, changes: Sequence[tuple[Row, Row]]) -> None:
    others, all_of_it = [], []
    for before, after in changes:
        if _searched(after) == _stored_searched(before):
            others.append((*_others(after), before[0]))
        else:
            all_of_it.append((*_searched(after), *_others(after), before[0]))
    _CHANGE_OTHERS.write(connection, others)
    _CHANGE_ALL.write(connection, all_of_it)
