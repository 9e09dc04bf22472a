"""When what an agent holds back departs from what is known."""

from __future__ import annotations

import numpy as np
import pytest

from chimbuko.core.statistics.convergence import LEAST_SHIFT, has_moved
from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PROFILE, TableSchema
from tests.ad.tables import table_of

SCHEMAS = pytest.mark.parametrize("schema", [PROFILE, BUCKETED_PROFILE], ids=["moments", "buckets"])
KNOWN_CALLS = 20_000


def rows(schema: TableSchema, *runtimes_us: np.ndarray) -> np.ndarray:
    return table_of(*(np.rint(us).astype(int).tolist() for us in runtimes_us))[:, : schema.width]


def gamma(random: np.random.Generator, calls: int, factor: float = 1.0) -> np.ndarray:
    return random.gamma(8.0, 10_000 / 8.0, calls) * factor


@SCHEMAS
def test_calls_like_those_before_are_no_news(schema: TableSchema) -> None:
    """Four standard errors: 1 of 16,000 by chance, so none of 200 here."""
    random = np.random.default_rng(1)
    known = rows(schema, gamma(random, KNOWN_CALLS))
    held = rows(schema, *(gamma(random, calls) for calls in (1, 10, 100, 1000) * 50))
    assert not has_moved(schema, np.repeat(known, len(held), axis=0), held).any()


@SCHEMAS
@pytest.mark.parametrize(("calls", "factor"), [(2000, 1.05), (2000, 0.95), (200, 1.2), (20, 1.8)])
def test_a_shift_beyond_the_bound_is_noticed(schema: TableSchema, calls: int, factor: float) -> None:
    random = np.random.default_rng(1)
    known = rows(schema, gamma(random, KNOWN_CALLS))
    held = rows(schema, *(gamma(random, calls, factor) for _ in range(50)))
    assert has_moved(schema, np.repeat(known, 50, axis=0), held).mean() > 0.9


@SCHEMAS
def test_a_shift_within_the_bound_is_not(schema: TableSchema) -> None:
    random = np.random.default_rng(1)
    known = rows(schema, gamma(random, KNOWN_CALLS))
    held = rows(schema, gamma(random, KNOWN_CALLS, 1 + LEAST_SHIFT / 4))
    assert not has_moved(schema, known, held).any()


def test_a_few_abnormal_calls_among_many_hide_no_shift() -> None:
    """They widen the spread of moments, but not that of logarithms."""
    random = np.random.default_rng(1)
    known_us = gamma(random, KNOWN_CALLS)
    known_us[:20] *= 1000.0
    known, held = rows(BUCKETED_PROFILE, known_us), rows(BUCKETED_PROFILE, gamma(random, 1000, 1.2))
    assert has_moved(BUCKETED_PROFILE, known, held).all()


@SCHEMAS
def test_nothing_held_has_not_moved(schema: TableSchema) -> None:
    known = rows(schema, gamma(np.random.default_rng(1), 100))
    assert not has_moved(schema, known, schema.empty(1)).any()
    assert not has_moved(schema, schema.empty(1), schema.empty(1)).any()
