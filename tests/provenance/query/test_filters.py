from __future__ import annotations

import math
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.filters import Cursor, as_object, matching_names
from tests.sample_records import make_record

TEXT = st.text(alphabet="ab*?[]%_.\\\n", max_size=8)


@settings(deadline=None)
@given(pattern=TEXT, names=st.sets(TEXT, max_size=6))
def test_patterns_match_as_their_two_signs_mean(pattern: str, names: set[str]) -> None:
    def matches(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return matches(pattern[1:], name) or (bool(name) and matches(pattern, name[1:]))
        return bool(name) and pattern[0] in ("?", name[0]) and matches(pattern[1:], name[1:])

    if pattern in names:
        assert matching_names(pattern, names) == {pattern}
    else:
        assert matching_names(pattern, names) == {name for name in names if matches(pattern, name)}


@settings(deadline=None)
@given(
    value=st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False)),
    number=st.integers(1, (1 << 63) - 1),
    descending=st.booleans(),
)
def test_cursors_go_through_text_unchanged(value: float, number: int, descending: bool) -> None:
    text = Cursor("score", descending, value, number).encode()
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    read = Cursor.decode(text, "score", descending)
    assert (read.value, read.number) == (value, number)


@settings(deadline=None)
@given(st.text())
def test_any_other_text_is_refused_as_a_cursor(text: str) -> None:
    with pytest.raises(ConfigError, match="cursor"):
        Cursor.decode(text, "score", True)


def test_json_objects_have_named_fields_at_every_level() -> None:
    record = make_record(score=math.inf)
    answer = msgspec.json.decode(msgspec.json.encode(as_object([record, None])))
    assert answer[1] is None
    assert answer[0]["score"] is None
    assert answer[0]["window"][0] == {
        "id": "0:1:3:90",
        "function": "compute",
        "entry_us": 999_500,
        "exit_us": 999_990,
        "parent_id": "0:1:0:0",
        "depth": 1,
        "is_anomaly": False,
    }
