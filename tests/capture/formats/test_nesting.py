"""Whatever calls a trace has, those of a thread nest, and none is lost."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.formats import spill
from chimbuko.capture.formats.readers.events import EVENT, Catalogue, Kind, Row, TrackKind, table_of
from chimbuko.capture.formats.rows import TOLERANCE_NS, Edge, TrackCalls
from chimbuko.capture.formats.spill import Spill, ordered

CALLS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(0, 3)), max_size=25)


def edges_of(calls: list[tuple[int, int, int]], kind: TrackKind) -> list[Edge]:
    """What whole calls of one track become: times in µs."""
    rows: list[Row] = [
        (1000 * begin, 1000 * length, at, 0, name, Kind.CALL)
        for at, (begin, length, name) in enumerate(calls)
    ]
    edges: list[Edge] = []
    track = TrackCalls(Catalogue(), kind, itertools.count().__next__)
    for time_ns, value, of, _, name, _ in ordered(table_of(rows)).tolist():
        track.call(time_ns, time_ns + value, name, of, edges)
    track.pass_to(1 << 62, edges)
    return edges


@given(CALLS, st.sampled_from(TrackKind))
def test_calls_nest_and_keep_their_times(calls: list[tuple[int, int, int]], kind: TrackKind) -> None:
    stacks: dict[int, list[Edge]] = defaultdict(list)
    last: dict[int, int] = defaultdict(int)
    found: Counter[tuple[int, int]] = Counter()
    ends: list[tuple[int, int]] = []
    for edge in edges_of(calls, kind):
        time_ns, is_exit, lane, name = edge
        assert time_ns >= last[lane]
        last[lane] = time_ns
        if not is_exit:
            stacks[lane].append(edge)
            assert kind is not TrackKind.ASYNCHRONOUS or len(stacks[lane]) == 1
            continue
        begin = stacks[lane].pop()
        assert begin[3] == name
        found[begin[0], name] += 1
        ends.append((begin[0], time_ns))
    assert not any(stacks.values())
    assert found == Counter((1000 * begin, name) for begin, _, name in calls)
    expected = sorted((1000 * begin, 1000 * (begin + length)) for begin, length, _ in calls)
    for (begin, end), (expected_begin, expected_end) in zip(sorted(ends), expected, strict=True):
        assert begin == expected_begin
        # Only by so much is a call shortened.
        assert abs(end - expected_end) <= TOLERANCE_NS


def test_a_call_goes_to_a_further_thread_only_where_it_must() -> None:
    edges = edges_of([(0, 10, 0), (2, 3, 1), (5, 5, 2), (8, 9, 3), (12, 3, 1)], TrackKind.THREAD)
    assert {lane for _, _, lane, name in edges if name != 3} == {0}
    assert {lane for _, _, lane, name in edges if name == 3} == {1}


@given(
    st.lists(st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 9), st.sampled_from(Kind)), max_size=9)),
    st.integers(1, 12),
    st.integers(1, 6),
)
def test_spilled_events_come_in_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int, Kind]]], period: int, most: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = [table_of([(time, value, 0, 0, 0, kind) for time, value, kind in part]) for part in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "RUN_ROWS", most)
        patch.setattr(spill, "WINDOW_ROWS", most)
        spilled = Spill(folder)
        for part in whole:
            spilled.put(part)
        windows = list(spilled.windows(period))
        spilled.close()
    assert all(len(set((window["time_ns"] // period).tolist())) == 1 for window in windows)
    assert all(len(window) <= most or len(set(window["time_ns"].tolist())) == 1 for window in windows)
    empty = np.empty(0, EVENT)
    assert np.concatenate([empty, *windows]).tolist() == ordered(np.concatenate([empty, *whole])).tolist()


def test_no_room(tmp_path: Path) -> None:
    spilled = Spill(tmp_path)
    spilled.close()
    assert list(tmp_path.iterdir()) == []
