"""What the next run of a series begins with."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.core.statistics.model import Model
from chimbuko.core.statistics.schema import schema_of
from chimbuko.provenance.history.priors import MOST_CALLS, merged_prior, packed_model, slower_than

SCHEMA = schema_of("robust")


def model(calls: float, bucket: int, functions: int = 1, mean_us: float = 100.0) -> Model:
    """Functions all of whose calls are in one bucket."""
    table = SCHEMA.empty(functions)
    table[:, SCHEMA.slices["exclusive_us"]] = calls, mean_us, 0.0, 0.0, 0.0, 1.0, 9.0
    table[:, SCHEMA.slices["inclusive_us"]] = table[:, SCHEMA.slices["exclusive_us"]]
    table[:, SCHEMA.slices["buckets"].start + bucket] = calls
    return Model("robust", "exclusive", [("heat2d", f"f{number}") for number in range(functions)], table)


def buckets(merged: Model | None) -> np.ndarray:
    assert merged is not None
    return merged.table[0, SCHEMA.slices["buckets"]]


def test_newer_runs_count_more() -> None:
    found = buckets(
        merged_prior([packed_model(model(10, 5)), packed_model(model(10, 7))], "robust", "exclusive")
    )
    assert (found[5], found[7]) == (10.0, pytest.approx(8.0))


def test_a_function_begins_with_a_bounded_number_of_calls() -> None:
    merged = merged_prior([packed_model(model(1e6, 5)), packed_model(model(1e6, 5))], "robust", "exclusive")
    assert buckets(merged).sum() == pytest.approx(MOST_CALLS)
    assert merged is not None
    assert merged.table[0, SCHEMA.slices["exclusive_us"]][:2] == pytest.approx([MOST_CALLS, 100.0])


def test_others_and_damaged_ones_are_left_out() -> None:
    packed = packed_model(model(10, 5))
    assert merged_prior([packed], "sstd", "exclusive") is None
    assert merged_prior([packed], "robust", "inclusive") is None
    assert merged_prior([b"", packed[:40]], "robust", "exclusive") is None
    assert buckets(merged_prior([b"", packed], "robust", "exclusive")).sum() == 10.0


def test_what_is_packed_is_bounded() -> None:
    random = np.random.default_rng(1)
    large = model(10, 5, functions=3000)
    large.table[:, SCHEMA.slices["buckets"]] = random.integers(
        0, 99, (3000, len(SCHEMA.identity[SCHEMA.slices["buckets"]]))
    )
    packed = packed_model(large)
    assert 100_000 < len(packed) <= 150_000
    merged = merged_prior([packed], "robust", "exclusive")
    assert merged is not None
    assert ("heat2d", "f0") in merged.functions


def test_a_function_whose_calls_are_all_slower_is_one_finding() -> None:
    prior = model(200, 40)
    (found,) = slower_than(prior, packed_model(model(50, 60, mean_us=600.0)))
    assert (found.program, found.function) == ("heat2d", "f0")
    assert found.factor == pytest.approx(6.0)
    assert slower_than(prior, packed_model(model(50, 40))) == []
    assert slower_than(prior, packed_model(model(50, 30, mean_us=30.0))) == []
