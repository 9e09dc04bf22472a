"""Which unread steps are dropped, beside a slow and obvious way to choose them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from chimbuko.capture.follow.limits import Held, Limits, first_steps


def obvious(streams: list[Held], limits: Limits, other: int, left: int) -> list[int]:
    """One step after the other; of streams that hold the same, the first."""
    dropped = [0] * len(streams)

    def held(place: int) -> int:
        begins = streams[place].begins
        return streams[place].held_bytes - (begins[dropped[place]] - begins[0] if begins else 0)

    def can(place: int) -> bool:
        return dropped[place] + 1 < len(streams[place].begins)

    for place in range(len(streams)):
        while can(place) and held(place) > limits.stream_bytes:
            dropped[place] += 1
    while any(map(can, range(len(streams)))):
        together = sum(map(held, range(len(streams))))
        freed = sum(stream.held_bytes for stream in streams) - together
        if together + other <= limits.node_bytes and left + freed >= limits.reserve_bytes:
            break
        dropped[max(filter(can, range(len(streams))), key=lambda place: (held(place), -place))] += 1
    return [stream.first_step + count for stream, count in zip(streams, dropped, strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> Held:
    sizes = draw(st.lists(st.integers(0, 50), max_size=20))
    begins = [draw(st.integers(0, 1000))]
    for size in sizes:
        begins.append(begins[-1] + size)
    incomplete = draw(st.integers(0, 60))
    if draw(st.booleans()):
        return Held(incomplete, draw(st.integers(0, 9)), [])
    return Held(begins[-1] - begins[0] + incomplete, draw(st.integers(0, 9)), begins)


limits = st.builds(Limits, st.integers(0, 400), st.integers(0, 1500), st.integers(0, 500))


@given(st.lists(streams(), max_size=6), limits, st.integers(0, 300), st.integers(0, 1000))
@example([Held(100, 0, [0, 10, 20]), Held(100, 5, [0, 50])], Limits(90, 1000, 0), 0, 1000)
def test_the_same_steps_as_the_obvious_way(held: list[Held], limits: Limits, other: int, left: int) -> None:
    chosen = first_steps(held, limits, other, left)
    assert chosen == obvious(held, limits, other, left)
    for stream, first in zip(held, chosen, strict=True):
        # Never one that is not complete, nor the newest that is.
        assert stream.first_step <= first <= stream.first_step + max(len(stream.begins) - 1, 0)


@given(st.lists(streams(), max_size=6), limits, st.integers(0, 300), st.integers(0, 1000))
def test_the_last_step_that_went_had_to_go(held: list[Held], limits: Limits, other: int, left: int) -> None:
    """Nothing is dropped where nothing is beyond a limit, and no more than is needed."""
    chosen = first_steps(held, limits, other, left)
    if chosen == [stream.first_step for stream in held]:
        return

    def is_within(steps: list[int]) -> bool:
        sizes = [
            stream.held_bytes
            - (stream.begins[first - stream.first_step] - stream.begins[0] if stream.begins else 0)
            for stream, first in zip(held, steps, strict=True)
        ]
        freed = sum(stream.held_bytes for stream in held) - sum(sizes)
        return (
            all(size <= limits.stream_bytes for size in sizes)
            and sum(sizes) + other <= limits.node_bytes
            and left + freed >= limits.reserve_bytes
        )

    fewer = [
        [first - (place == changed) for place, first in enumerate(chosen)]
        for changed in range(len(held))
        if chosen[changed] > held[changed].first_step
    ]
    assert not all(map(is_within, fewer))


def test_the_fullest_stream_first() -> None:
    small = Held(300, 0, [0, 100, 200])
    large = Held(900, 40, [700 + 100 * step for step in range(9)])
    assert first_steps([small, large], Limits(1000, 1000, 0), 0, 1 << 40) == [0, 42]
    assert first_steps([small, large], Limits(1000, 5000, 300), 0, 0) == [0, 43]
    assert first_steps([small, large], Limits(1000, 1300, 0), 150, 1 << 40) == [0, 41]
    assert first_steps([small, large], Limits(100, 5000, 0), 0, 1 << 40) == [2, 48]
    assert first_steps([], Limits(0, 0, 0), 10, 0) == []
