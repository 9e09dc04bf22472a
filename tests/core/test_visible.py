"""Texts of others as a terminal may get them."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.names import escaped_json, visible

DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_nothing_is_left_that_acts_on_a_terminal(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in shown)
    assert not any(unicodedata.bidirectional(one) in DIRECTIONS for one in shown)
    assert visible(shown) == shown
    shown.encode()


@given(st.text())
def test_json_says_the_same_without_it(text: str) -> None:
    shown = escaped_json(json.dumps({"name": text}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {"name": text}
    assert visible(shown.replace("\n", "")) == shown.replace("\n", "")


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_names_in_all_scripts_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


def test_how_it_is_written_out() -> None:
    assert visible("solve\x1b[2J\u202etxt\n\x9b") == r"solve\x1b[2J\u202etxt\n\x9b"
