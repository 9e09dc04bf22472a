"""Tables of call paths: whatever is added in whatever order, it is the same in the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.pathtable import PATH, PathTable
from tests.plainpython import examples
from tests.reference.paths import Path, paths_of

EXAMPLES = examples(60)


def path_rows(runtimes_us: list[tuple[Path, int]]) -> Rows:
    """``PATH`` rows of calls of leaves; every path has its parents before it, in order of mention."""
    table: dict[Path, list[float]] = {}
    for path, runtime_us in runtimes_us:
        for depth in range(1, len(path) + 1):
            table.setdefault(path[:depth], [0, 0.0, 0.0, np.inf, -np.inf])
        row = table[path]
        row[0] += 1
        row[1] += runtime_us
        row[2] += runtime_us**2
        row[3] = min(row[3], runtime_us)
        row[4] = max(row[4], runtime_us)
    numbers = {path: number for number, path in enumerate(table, 1)} | {(): -1}
    rows = [(-1, -1, 0, *[0.0] * 8, 0, *[0.0] * 3)]
    for path, (calls, *runtime) in table.items():
        spent = (int(calls), runtime[0], 0.0, 0.0)
        rows.append((numbers[path[:-1]], path[-1], int(calls), *runtime, *runtime, *spent))
    return np.array(rows, PATH)


paths = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)
calls = st.lists(st.tuples(paths, st.integers(0, 1 << 20)), max_size=12)


@EXAMPLES
@given(st.lists(calls, max_size=5))
def test_parts_in_any_order_are_the_whole(parts: list[list[tuple[Path, int]]]) -> None:
    whole, forwards, backwards = PathTable(), PathTable(), PathTable()
    whole.add(path_rows([call for part in parts for call in part]))
    for part in parts:
        forwards.add(path_rows(part))
    for part in parts[::-1]:
        backwards.add(path_rows(part))
    assert paths_of(forwards.rows) == paths_of(backwards.rows) == paths_of(whole.rows)


@EXAMPLES
@given(calls)
def test_paths_without_calls_below_them_get_no_row(made: list[tuple[Path, int]]) -> None:
    rows = path_rows(made)
    rows["calls"][len(rows) // 2 :] = 0
    table = PathTable()
    table.add(rows)
    needed = {path[:depth] for path in paths_of(rows) for depth in range(1, len(path) + 1)}
    assert len(table.rows) == 1 + len(needed)


def test_paths_that_there_is_no_room_for_are_the_others() -> None:
    table = PathTable(most=4)
    table.add(path_rows([((1,), 10), ((1, 2), 10), ((1, 3), 10), ((4,), 7), ((4, 1), 8), ((1, 2), 5)]))
    found = paths_of(table.rows)
    assert {path: row[0] for path, row in found.items()} == {(): 2, (1,): 1, (1, 2): 2, (1, 3): 1}
    assert found[()][1] == 15


def test_calls_are_forgotten_and_paths_kept() -> None:
    table = PathTable()
    rows = path_rows([((1, 2), 10)])
    table.add(rows)
    table.forget_calls()
    assert not paths_of(table.rows) and len(table.rows) == 3
    table.add(rows)
    assert paths_of(table.rows) == paths_of(rows)


@pytest.mark.parametrize("parent", [-2, 1, 2, 1 << 20])
def test_damaged_rows_are_refused(parent: int) -> None:
    rows = path_rows([((1,), 10)])
    rows["parent"][1] = parent
    with pytest.raises(ValueError, match="parents"):
        PathTable().add(rows)
