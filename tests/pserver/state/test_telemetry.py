"""The views: what agents tell adds up, only what changed is told, and what was saved goes on."""

from __future__ import annotations

import numpy as np

from chimbuko.arrays import Rows
from chimbuko.calls.record import CounterStatistics
from chimbuko.protocol.telemetry import FLAGGED, TRAFFIC, AgentFigures, StreamCounters, ViewChanges, ViewDelta
from chimbuko.pserver.state.telemetry import Views
from tests.pserver.state.test_stragglers import windows

AGENT = "agent-0"
NUMBERS = np.array([7, 3, 5])
FIGURES = AgentFigures("node1", 4, 100_000_000, 1.5, 4096, 0.25)
COUNTER = CounterStatistics("bytes", 2.0, 8.0, 0.0, 0.0, 0.0, 8.0, 8.0)


def new_views() -> Views:
    return Views(lambda number: f"f{number}", lambda program, rank: f"node{rank}")


def delta(step: int) -> ViewDelta:
    return ViewDelta(
        flagged=np.array([(0, 1, 2, 1, 10.0 * step, float(step))], FLAGGED).tobytes(),
        traffic=np.array([(0, 1, 2, 3, 24)], TRAFFIC).tobytes(),
        counters=[StreamCounters(0, 1, [COUNTER])],
        figures=FIGURES,
    )


def flagged(changes: ViewChanges) -> list[tuple]:
    rows: Rows = np.frombuffer(changes.flagged, FLAGGED)
    return rows.tolist()


def test_what_agents_tell_adds_up() -> None:
    views = new_views()
    for step in range(3):
        views.take(AGENT, delta(step), NUMBERS)
    changes = views.changes()
    assert flagged(changes) == [(0, 1, 5, 3, 30.0, 2.0)]
    assert np.frombuffer(changes.traffic, TRAFFIC).tolist() == [(0, 1, 2, 9, 72)]
    assert [(one.ranks, one.statistics) for one in changes.counters] == [(1, COUNTER)]
    assert changes.agents == {AGENT: FIGURES}
    assert not views.changes()


def test_only_what_changed_is_told() -> None:
    views = new_views()
    views.take(AGENT, delta(0), NUMBERS)
    views.changes()
    views.take(AGENT, ViewDelta(np.array([(0, 4, 0, 2, 1.0, 9.0)], FLAGGED).tobytes()), NUMBERS)
    assert views.changes() == ViewChanges(flagged=np.array([(0, 4, 7, 2, 1.0, 9.0)], FLAGGED).tobytes())
    assert len(flagged(views.everything())) == 2
    assert views.changes(is_last=True) == views.everything()


def test_saving_in_between_hides_nothing() -> None:
    views = new_views()
    for rows in windows(2, 6, functions=3, slow=[3], factor=1.3):
        views.take(AGENT, ViewDelta(paces=rows.tobytes()), NUMBERS)
    views.dump()
    assert views.changes().slow_ranks


def test_what_was_saved_goes_on() -> None:
    straight, first, second = new_views(), new_views(), new_views()
    paces = list(windows(2, 6, functions=3, slow=[3], factor=1.3))
    for views in (straight, first):
        views.take(AGENT, delta(0), NUMBERS)
        for rows in paces[:4]:
            views.take(AGENT, ViewDelta(paces=rows.tobytes()), NUMBERS)
    second.restore(first.dump())
    assert not second.changes().flagged
    for views in (straight, second):
        views.take(AGENT, delta(1), NUMBERS)
        for rows in paces[4:]:
            views.take(AGENT, ViewDelta(paces=rows.tobytes()), NUMBERS)
        views.changes()
    assert second.everything() == straight.everything()
    slow = second.everything().slow_ranks
    assert slow and {(one.rank, one.node) for one in slow} == {(3, "node3")}
    assert {one.function for one in slow} <= {"", "f3", "f5", "f7"}
