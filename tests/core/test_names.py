"""Names as users write them, and texts of others as a terminal may get them."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.names import escaped_json, name_matcher, visible

DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
TEXT = st.text("ab*?.\n(", max_size=12)


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


def matches(pattern: str, name: str) -> bool:
    """By the meaning of ``*`` and ``?``, one character at a time."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(matches(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and matches(pattern[1:], name[1:])


@given(pattern=TEXT, name=TEXT)
def test_a_pattern_means_what_it_says(pattern: str, name: str) -> None:
    assert name_matcher(pattern)(name) == (name == pattern or matches(pattern, name))


def test_many_stars_take_no_time() -> None:
    # All ways to place them would be 10 ** 60; a test takes 180 s at most.
    assert not name_matcher("*a" * 40 + "*b")("a" * 5000)
    assert name_matcher("*a" * 40 + "*b")("a" * 5000 + "b")
