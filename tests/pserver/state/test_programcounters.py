"""Counters over all ranks: totals that are reported twice, or anew, count once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.record import CounterStatistics
from chimbuko.core.statistics.moments import Moments
from chimbuko.pserver.state.programtotals import ProgramCounters
from chimbuko.runtime.protocol.telemetry import StreamCounters
from tests.plainpython import examples

values = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=5)
stream = st.tuples(st.integers(0, 1), st.integers(0, 20), st.sampled_from(["bytes", "power"]))


def reported(program: int, rank: int, name: str, of: list[int]) -> StreamCounters:
    return StreamCounters(program, rank, [CounterStatistics(name, *Moments.of(of).row().tolist())])


@examples(100)
@given(st.lists(st.tuples(stream, values), max_size=30))
def test_the_total_is_that_of_all_values(appended: list[tuple[tuple[int, int, str], list[int]]]) -> None:
    """Each stream reports its totals again with each new value."""
    counters = ProgramCounters()
    streams: dict[tuple[int, int, str], list[int]] = {}
    for key, more in appended:
        streams.setdefault(key, []).extend(more)
        counters.take([reported(*key, streams[key])] * 2)
    restored = ProgramCounters()
    restored.restore(counters.dump())
    for one in (counters, restored):
        totals = {(total.program, total.statistics.name): total for total in one.everything()}
        assert totals.keys() == {(program, name) for program, _, name in streams}
        for (program, name), total in totals.items():
            own = [
                of
                for (of_program, _, of_name), of in streams.items()
                if (of_program, of_name) == (program, name)
            ]
            expected = Moments.of(np.concatenate(own))
            assert total.ranks == len(own)
            assert (total.statistics.n, total.statistics.maximum) == (expected.n, expected.maximum)
            assert total.statistics.mean == pytest.approx(expected.mean)
            assert total.statistics.m2 == pytest.approx(expected.m2, rel=1e-9, abs=1e-3)


def test_what_grew_by_a_tenth_is_reported() -> None:
    counters = ProgramCounters()
    changes = []
    for count in range(1, 201):
        counters.take([reported(0, 3, "bytes", [8] * count)])
        changes += counters.changes()
    assert 25 < len(changes) < 45
    assert not counters.changes()
