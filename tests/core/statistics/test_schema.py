"""Statistics tables: each column by its rule."""

from __future__ import annotations

import pickle

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.detectors import make_detector
from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.errors import StoreError
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import (
    BUCKETED_PROFILE,
    PROFILE,
    STORED_PROFILE,
    Column,
    Rule,
    TableSchema,
    schema_of,
    stored_columns,
    stored_schema_of,
)

ALL_RULES = TableSchema(
    (
        Column("calls", Rule.ADD),
        Column("runtime", Rule.MOMENTS),
        Column("first", Rule.MIN),
        Column("last", Rule.MAX),
    )
)

entries = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1000)), max_size=30)


def table_of(some: list[tuple[int, int]]) -> tuple[list[int], np.ndarray]:
    """One row per entry."""
    table = ALL_RULES.empty(len(some))
    for row, (_, value) in zip(table, some, strict=True):
        row[ALL_RULES.slices["calls"]] = 1.0
        row[ALL_RULES.slices["runtime"]] = Moments.of([value]).row()
        row[ALL_RULES.slices["first"]] = row[ALL_RULES.slices["last"]] = value
    return [number for number, _ in some], table


@settings(deadline=None)
@given(entries)
def test_each_column_merges_by_its_rule(some: list[tuple[int, int]]) -> None:
    """Rows named several times in one merge included."""
    merged = ALL_RULES.empty(5)
    ALL_RULES.merge(merged, *table_of(some))
    for number, row in enumerate(merged):
        values = [value for at, value in some if at == number]
        exact = Moments.of(values)
        runtime = Moments.from_row(row[ALL_RULES.slices["runtime"]])
        assert row[ALL_RULES.slices["calls"]] == len(values) == runtime.n
        assert (runtime.mean, runtime.m2) == pytest.approx((exact.mean, exact.m2))
        assert row[ALL_RULES.slices["first"]] == min(values, default=np.inf)
        assert row[ALL_RULES.slices["last"]] == max(values, default=-np.inf)


@settings(deadline=None)
@given(entries)
def test_merging_with_an_empty_table_changes_nothing(some: list[tuple[int, int]]) -> None:
    _, table = table_of(some)
    before = table.copy()
    ALL_RULES.merge(table, range(len(table)), ALL_RULES.empty(len(table)))
    np.testing.assert_array_equal(table, before)
    empty = ALL_RULES.empty(len(table))
    ALL_RULES.merge(empty, range(len(table)), table)
    np.testing.assert_array_equal(empty, before)


def test_columns_stand_one_after_the_other() -> None:
    assert ALL_RULES.width == 10
    assert ALL_RULES.starts.tolist() == [0, 1, 8, 9]
    assert ALL_RULES.slices["runtime"] == slice(1, 8)
    assert PROFILE.width == 17


def test_growing_keeps_the_rows_and_adds_empty_ones() -> None:
    _, table = table_of([(0, 5), (1, 6)])
    assert ALL_RULES.grown(table, 2) is table
    larger = ALL_RULES.grown(table, 3)
    assert len(larger) >= 3
    np.testing.assert_array_equal(larger[:2], table)
    np.testing.assert_array_equal(larger[2:], ALL_RULES.empty(len(larger) - 2))
    assert len(ALL_RULES.grown(table, 100)) == 100


BUCKETS = BUCKETED_PROFILE.slices["buckets"]

cells = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, BUCKETED_PROFILE.width - 1), st.floats(-1e300, 1e300)),
    max_size=40,
)


@settings(deadline=None)
@given(st.integers(0, 6), cells)
def test_what_is_packed_is_unpacked(rows: int, some: list[tuple[int, int, float]]) -> None:
    for schema in (BUCKETED_PROFILE, PROFILE):
        table = schema.empty(rows)
        for row, column, value in some:
            if row < rows and column < schema.width:
                table[row, column] = value
        np.testing.assert_array_equal(schema.unpack(schema.pack(table)), table)
        each = [schema.unpack(row) for row in schema.split(schema.pack(table))]
        np.testing.assert_array_equal(np.concatenate([schema.empty(0), *each]), table)


def test_what_is_0_in_wide_columns_is_not_sent() -> None:
    table = BUCKETED_PROFILE.empty(100)
    table[:, BUCKETS.start + 7] = 3.0
    packed = BUCKETED_PROFILE.pack(table)
    parts = packed.narrow, packed.counts, packed.cells, packed.values
    assert sum(map(len, parts)) == 100 * (8 * BUCKETED_PROFILE.narrow + 2 + 2 + 4)


counted = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, BUCKETS.stop - BUCKETS.start - 1), st.integers(1, 9)),
    max_size=40,
)


@settings(deadline=None)
@given(counted)
def test_wide_columns_add_up_cell_by_cell(some: list[tuple[int, int, int]]) -> None:
    """In halves or together, exactly the same."""
    merged, halves = BUCKETED_PROFILE.empty(5), [BUCKETED_PROFILE.empty(5) for _ in range(2)]
    expected = np.zeros((5, BUCKETS.stop - BUCKETS.start))
    for number, (row, bucket, count) in enumerate(some):
        one = BUCKETED_PROFILE.empty(1)
        one[0, BUCKETS.start + bucket] = count
        expected[row, bucket] += count
        for into in (merged, halves[number % 2]):
            BUCKETED_PROFILE.merge(into, [row], one)
    BUCKETED_PROFILE.merge(halves[0], range(5), halves[1])
    np.testing.assert_array_equal(merged[:, BUCKETS], expected)
    np.testing.assert_array_equal(halves[0], merged)


def test_each_detector_learns_a_table_that_begins_with_the_profile() -> None:
    for detector in DETECTORS:
        schema = schema_of(detector)
        assert schema.columns[: len(PROFILE.columns)] == PROFILE.columns
        assert make_detector(AnalysisConfig(detector=detector)).schema is schema


@settings(deadline=None)
@given(st.integers(0, 6), cells)
def test_what_was_packed_merges_as_what_was_not(rows: int, some: list[tuple[int, int, float]]) -> None:
    schema = BUCKETED_PROFILE
    table, merged, plain = schema.empty(rows), schema.empty(rows), schema.empty(rows)
    for row, column, value in some:
        if row < rows:
            table[row, column] = abs(value) % 1e6
    for _ in range(2):
        schema.merge_packed(merged, np.arange(rows), schema.pack(table))
        schema.merge(plain, np.arange(rows), table)
    np.testing.assert_array_equal(merged, plain)


def test_a_table_whose_parts_do_not_fit_is_refused_whole() -> None:
    table = BUCKETED_PROFILE.empty(3)
    table[:, BUCKETS.start + 7] = 3.0
    packed, held = BUCKETED_PROFILE.pack(table), BUCKETED_PROFILE.empty(3)
    wrong = {
        "narrow": packed.narrow[8:],
        "counts": np.array([1, 1, 2], np.uint16).tobytes(),
        "cells": np.array([1, 1, 5000], np.uint16).tobytes(),
        "values": packed.values[:-4],
    }
    for part, content in wrong.items():
        with pytest.raises(ValueError):
            BUCKETED_PROFILE.merge_packed(
                held, np.arange(3), msgspec.structs.replace(packed, **{part: content})
            )
    np.testing.assert_array_equal(held, BUCKETED_PROFILE.empty(3))


@pytest.mark.parametrize("known", [PROFILE, BUCKETED_PROFILE, STORED_PROFILE])
def test_a_schema_of_ours_is_kept_by_its_name_and_another_by_its_columns(known: TableSchema) -> None:
    assert pickle.loads(pickle.dumps(known)) is known
    assert len(pickle.dumps(known)) < 100 < len(pickle.dumps(ALL_RULES))
    assert pickle.loads(pickle.dumps(ALL_RULES)).columns == ALL_RULES.columns


@pytest.mark.parametrize("detector", [*DETECTORS, "of a later version"])
def test_the_store_has_what_a_detector_learns_and_what_it_counted_stands_last(detector: str) -> None:
    learned, stored = schema_of(detector), stored_schema_of(detector)
    assert stored.columns[: len(learned.columns)] == learned.columns
    assert [column.name for column in stored.columns[len(learned.columns) :]] in ([], ["counted"])


@pytest.mark.parametrize("detector", DETECTORS)
def test_stored_rows_are_read_by_column_with_what_was_counted_or_without(detector: str) -> None:
    for schema in (schema_of(detector), stored_schema_of(detector)):
        row = np.arange(float(schema.width))
        found = stored_columns(detector, row.tobytes())
        assert list(found) == list(schema.slices)
        np.testing.assert_array_equal(np.concatenate([*found.values()]), row)


@pytest.mark.parametrize("schema", [BUCKETED_PROFILE, STORED_PROFILE])
def test_stored_rows_of_earlier_versions_know_of_no_calls_with_a_place(schema: TableSchema) -> None:
    row = np.arange(float(schema.width))
    begin, end = schema.slices["much_longer"].start, schema.slices["placed"].stop
    found = stored_columns("robust", np.delete(row, slice(begin, end)).tobytes())
    assert list(found) == list(schema.slices)
    row[begin:end] = 0.0
    np.testing.assert_array_equal(np.concatenate([*found.values()]), row)


def test_stored_rows_of_other_columns_are_refused() -> None:
    row = np.zeros(stored_schema_of("robust").width + 1)
    with pytest.raises(StoreError, match=f"a model of {len(row)} values, .* have {len(row) - 1}: "):
        stored_columns("robust", row.tobytes())


def test_columns_of_many_values_stand_last_and_add_up() -> None:
    wide = Column("buckets", Rule.ADD, values=4)
    with pytest.raises(ValueError, match="behind all others"):
        TableSchema((wide, Column("calls", Rule.ADD)))
    with pytest.raises(ValueError, match="add up"):
        TableSchema((Column("calls", Rule.ADD), Column("highest", Rule.MAX, values=4)))


@settings(deadline=None)
@given(st.integers(0, 6), cells)
def test_of_several_columns_of_many_values_each_has_its_own_cells(
    rows: int, some: list[tuple[int, int, float]]
) -> None:
    table = STORED_PROFILE.empty(rows)
    for row, column, value in some:
        if row < rows:
            table[row, STORED_PROFILE.narrow + column % (2 * (BUCKETS.stop - BUCKETS.start))] = abs(value)
    packed = STORED_PROFILE.pack(table)
    for name in ("buckets", "counted"):
        counts, places, values = STORED_PROFILE.cells_of(packed, name)
        found = np.zeros((rows, (BUCKETS.stop - BUCKETS.start)))
        found[np.repeat(np.arange(rows), counts), places] = values
        np.testing.assert_array_equal(found, table[:, STORED_PROFILE.slices[name]])
