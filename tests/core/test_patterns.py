"""Names as users write them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.names import name_matcher

TEXT = st.text("ab*?.\n(", max_size=12)


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
