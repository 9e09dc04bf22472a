"""What functions took on a rank is what its calls took, whichever paths they are on."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.modelsync.agentstatistics import rank_timers
from chimbuko.core.calls.pathtable import PathTable
from chimbuko.runtime.protocol.telemetry import OTHERS
from tests.core.calls.test_pathtable import path_rows

paths = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)
calls = st.lists(st.tuples(paths, st.integers(0, 1000)), min_size=1, max_size=20)


@given(calls, st.integers(1, 5))
def test_timers_are_the_sums_of_calls(calls: list[tuple[tuple[int, ...], int]], most: int) -> None:
    count: dict[int, int] = defaultdict(int)
    exclusive_us: dict[int, int] = defaultdict(int)
    inclusive_us: dict[int, int] = defaultdict(int)
    for path, runtime_us in calls:
        count[path[-1]] += 1
        exclusive_us[path[-1]] += runtime_us
        # TAU's rule: what a call within another one of the same function takes is in that one's already.
        inclusive_us[path[-1]] += 0 if path[-1] in path[:-1] else runtime_us
    timers = rank_timers(2, 7, path_rows(calls), most)
    assert set(timers["program"].tolist()) == {2} and set(timers["rank"].tolist()) == {7}
    own = timers[timers["function"] != OTHERS]
    assert len(own) == min(most, len(count)) and len(timers) <= len(own) + 1
    for _, _, function, called, inclusive, exclusive in own.tolist():
        assert (called, inclusive, exclusive) == (
            count[function],
            inclusive_us[function],
            exclusive_us[function],
        )
    least = min(own["exclusive_us"])
    assert all(exclusive_us[function] <= least for function in count.keys() - set(own["function"].tolist()))
    assert timers["calls"].sum() == len(calls)
    assert timers["exclusive_us"].sum() == sum(runtime_us for _, runtime_us in calls)


def test_calls_on_no_path_are_those_of_others() -> None:
    table = PathTable(most=4)
    table.add(path_rows([((0,), 1), ((1,), 2), ((2,), 4), ((3,), 8), ((0, 3), 16)]))
    timers = {row[2]: row[3:] for row in rank_timers(0, 0, table.rows).tolist()}
    assert timers[OTHERS] == (2, 0.0, pytest.approx(24.0))
    assert timers[2] == (1, 4.0, 4.0)
