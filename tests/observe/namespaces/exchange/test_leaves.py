"""Leaves: what can be one, their types, and what is appended to them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import (
    LARGEST_LEAF_BYTES,
    Leaf,
    as_leaf,
    element_type,
    elements,
    fitted,
    is_same,
    joined,
)
from tests.observe.namespaces.strategies import LEAVES


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "bool"),
        (np.True_, "bool"),
        (3, "int64"),
        (np.int64(3), "int64"),
        (2**64 - 1, "uint64"),
        (0.5, "float64"),
        (np.float64(0.5), "float64"),
        (np.float32(0.5), "float32"),
        (np.uint16(7), "uint16"),
        ("text", "string"),
        (np.str_("text"), "string"),
        ([1, 2], "int64"),
        ((1.0, 2.0), "float64"),
        (np.zeros((2, 3), ">f4"), "float32"),
        ([True, False], "bool"),
        (np.array(5), "int64"),
    ],
)
def test_types_of_leaves(value: object, kind: str) -> None:
    leaf = as_leaf(value)
    assert element_type(leaf) == kind
    assert not isinstance(leaf, (np.bool_, np.int64, np.float64)) or np.ndim(leaf)
    assert is_same(leaf, as_leaf(leaf))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "a NoneType is no value to observe"),
        (b"raw", "a bytes is no value"),
        ({1}, "a set is no value"),
        (1j, "a complex is no value"),
        (datetime.date(2026, 1, 1), "a date is no value"),
        (2**64, "does not fit into 64 bits"),
        (-(2**63) - 1, "does not fit into 64 bits"),
        (["a", "b"], "an array of str"),
        ([1, None], "an array of object"),
        ([[1], [1, 2]], "differ in length"),
        (np.zeros(2, complex), "an array of complex128"),
        (np.zeros(2, np.float16), "an array of float16"),
        (np.zeros((1,) * 9), "has 9 dimensions, and may have 8"),
        ("\ud800", "halves of characters"),
        (np.zeros(LARGEST_LEAF_BYTES // 8 + 1), "has 1,048,584 bytes, and a value may have 1,048,576"),
        ("x" * (LARGEST_LEAF_BYTES + 1), "a value may have"),
    ],
)
def test_what_is_no_leaf_is_said_in_one_line(value: object, why: str) -> None:
    with pytest.raises(ObservationError, match=why) as caught:
        as_leaf(value)
    assert "\n" not in str(caught.value)


def test_an_array_that_is_changed_later_stays_as_it_was_given() -> None:
    given_array = np.arange(3)
    leaf = as_leaf(given_array)
    given_array[0] = 9
    assert elements(leaf).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        elements(leaf)[0] = 1  # type: ignore[call-overload]


def test_a_nan_is_itself_and_signs_of_zero_differ() -> None:
    assert is_same(float("nan"), float("nan"))
    assert not is_same(0.0, -0.0)
    assert not is_same(1, 1.0)
    assert not is_same(1, True)
    assert not is_same("1", 1)
    assert not is_same(as_leaf([1.0]), 1.0)


@pytest.mark.parametrize(
    ("leaf", "kind", "wanted"),
    [
        (3, "float64", 3.0),
        (3, "float32", np.float32(3)),
        (0.1, "float32", np.float32(0.1)),
        (0.5, "int64", None),
        (300, "uint8", None),
        (-1, "uint64", None),
        (200, "int8", None),
        (7, "uint16", np.uint16(7)),
        (True, "int64", None),
        (1, "bool", None),
        ("1", "int64", None),
        (1, "string", None),
        (np.uint64(2**64 - 1), "int64", None),
    ],
)
def test_a_value_is_fitted_where_nothing_is_lost(leaf: Leaf, kind: str, wanted: Any) -> None:
    new = fitted(leaf, kind)
    assert new is None if wanted is None else new is not None and is_same(new, wanted)


@given(LEAVES, LEAVES)
def test_what_is_appended_is_at_the_end(old: Leaf, more: Leaf) -> None:
    new = joined(old, more)
    if element_type(old) != element_type(more):
        assert is_same(new, more)
    elif isinstance(old, str):
        assert new == old + str(more)
    else:
        assert elements(new).dtype == elements(old).dtype
        assert elements(new).tobytes() == elements(old).tobytes() + elements(more).tobytes()
