"""Sums of rows keep what was counted."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName, packed, unpacked
from chimbuko.monitor.sampling.rows import NODE, THREAD, Rows, ends_us, overlapping, overlaps_us, summed

_rows = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(1, 3), st.integers(0, 2**32 - 1)),
    max_size=20,
)


def made(values: list[tuple[int, int, int, int]]) -> Rows:
    rows = np.zeros(len(values), THREAD)
    for name, column in zip(
        ("begin_us", "length_us", "tid", "ran_us"), zip(*values, strict=True), strict=False
    ):
        rows[name] = column
    return rows


@given(_rows)
def test_a_sum_has_one_row_for_each_thread_and_all_that_was_counted(
    values: list[tuple[int, int, int, int]],
) -> None:
    rows = made(values)
    sums = summed(rows, ["pid", "tid"])
    assert sorted(sums["tid"].tolist()) == sorted({tid for _, _, tid, _ in values})
    for row in sums:
        of_thread = rows[rows["tid"] == row["tid"]]
        assert row["ran_us"] == min(int(of_thread["ran_us"].sum(dtype=np.uint64)), 2**32 - 1)
        assert row["begin_us"] == of_thread["begin_us"].min()


@given(_rows, st.integers(0, 70), st.integers(0, 70))
def test_what_overlaps_an_interval_has_time_in_common_with_it(
    values: list[tuple[int, int, int, int]], one: int, other: int
) -> None:
    begin_us, end_us = sorted((one, other))
    rows = made(values)
    expected = [max(0, min(b + length, end_us) - max(b, begin_us)) for b, length, *_ in values]
    assert overlaps_us(rows, begin_us, end_us).tolist() == expected
    if end_us > begin_us:
        assert overlaps_us(overlapping(rows, begin_us, end_us), begin_us, end_us).sum() == sum(expected)
    assert (ends_us(rows) >= rows["begin_us"]).all()


def test_the_node_keeps_the_least_memory_and_the_newest_total() -> None:
    rows = np.zeros(2, NODE)
    rows["begin_us"], rows["length_us"], rows["available_bytes"], rows["memory_bytes"] = [0, 5], 5, [3, 7], 9
    (row,) = summed(rows, [])
    assert (row["available_bytes"], row["memory_bytes"], row["length_us"]) == (3, 9, 10)


def test_a_batch_is_stored_as_it_was() -> None:
    rows = made([(1, 2, 3, 4)])
    batch = NodeBatch("n", 7, False, 1, 3, [ThreadName(1, 3, "a (b", 0, 2, 0)], threads=rows.tobytes())
    assert unpacked(packed(batch).rows) == batch
    assert (batch.thread_rows() == rows).all() and not len(batch.core_rows())
    before_columns = zlib.compress(msgspec.msgpack.encode(batch))
    assert unpacked(before_columns) == batch, "stores have such, too"
