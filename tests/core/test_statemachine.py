"""The story of a state machine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.statemachine import Story


@given(st.lists(st.floats(0.0, 1e6)), st.integers(1, 5))
def test_a_story_has_the_last_steps_in_order(times_s: list[float], most: int) -> None:
    story = Story(most)
    for time_s in times_s:
        story.note(time_s, "asked to end", "stopping")
    expected = [f"{time_s:12.3f} s  asked to end: stopping" for time_s in times_s[-most:]]
    assert story.lines() == expected
