"""Paths, as keys and as text."""

from __future__ import annotations

import pytest
from hypothesis import given

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.paths import (
    LONGEST_KEY_BYTES,
    MOST_KEYS,
    Path,
    checked_path,
    format_path,
    parse_path,
)
from tests.observe.namespaces.strategies import PATHS


@given(PATHS)
def test_text_of_a_path_stands_for_that_path(path: Path) -> None:
    assert parse_path(format_path(path)) == path


def test_a_path_reads_as_its_keys() -> None:
    assert parse_path("") == ()
    assert parse_path("Rank 3/50%/a%2Fb") == ("Rank 3", "50%", "a/b")


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([""], "''"),
        (["a", ".."], "'..'"),
        (["a\0"], "character of number 0"),
        (["\ud800"], "halves of characters"),
        (["a" * (LONGEST_KEY_BYTES + 1)], "has 1,025 bytes, and may have 1,024"),
        (["a"] * (MOST_KEYS + 1), "has 33 keys, and may have 32"),
        ([3], "is a int; a key is a string"),
    ],
)
def test_what_is_no_path_is_said_in_one_short_line(keys: list[str], why: str) -> None:
    with pytest.raises(ObservationError, match=why) as caught:
        checked_path(keys)
    assert len(str(caught.value)) < 200 and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["/a", "a//b", "a/"])
def test_empty_keys_in_a_text_are_refused(text: str) -> None:
    with pytest.raises(ObservationError, match="cannot be used"):
        parse_path(text)
