"""Arrays that grow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.arrays import LEAST_ROWS, as_table, distinct, grown, longer
from chimbuko.runtime.protocol.telemetry import FLAGGED


@given(st.integers(0, 300), st.integers(0, 600), st.sampled_from([0.0, np.inf, (1.0, 2.0)]))
def test_an_array_grows_by_rows_that_hold_the_filling(held: int, rows: int, fill: object) -> None:
    array = np.arange(2.0 * held).reshape(held, 2)
    found = grown(array, rows, fill)  # type: ignore[arg-type]
    assert (found is array) == (rows <= held)
    assert rows <= held or len(found) == max(rows, 2 * held, LEAST_ROWS)
    assert (found[:held] == array).all() and (found[held:] == fill).all()


def test_a_table_stays_a_table() -> None:
    rows = as_table(np.ones(3, FLAGGED))
    larger = longer(rows, 100)
    assert len(larger) == 100 and larger.dtype == rows.dtype and larger[2].anomalies == 1
    assert (larger[:3] == rows).all() and not larger[3:]["anomalies"].any()


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
    pairs = np.array([(one, -one) for one in values], [("one", np.int64), ("other", np.int32)])
    assert distinct(pairs).tolist() == [(one, -one) for one in sorted(set(values))]
