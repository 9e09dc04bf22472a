"""The telemetry: what agents report adds up, only what changed is reported, and what was saved goes on."""

from __future__ import annotations

import numpy as np

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.record import CounterStatistics
from chimbuko.pserver.state.runtelemetry import SavedTelemetry, Telemetry
from chimbuko.runtime.protocol.telemetry import (
    FLAGGED,
    PACE,
    TIMER,
    TRAFFIC,
    AgentFigures,
    ProgramPaths,
    StreamCounters,
    TelemetryChanges,
    TelemetryDelta,
)
from tests.core.calls.test_pathtable import path_rows
from tests.pserver.state.test_stragglers import windows

AGENT = "agent-0"
NUMBERS = np.array([7, 3, 5])
FIGURES = AgentFigures("node1", 4, 100_000_000, 1.5, 4096, 0.25)
COUNTER = CounterStatistics("bytes", 2.0, 8.0, 0.0, 0.0, 0.0, 8.0, 8.0)


def new_telemetry() -> Telemetry:
    return Telemetry(lambda number: f"f{number}", lambda program, rank: f"node{rank}")


def delta(step: int) -> TelemetryDelta:
    return TelemetryDelta(
        flagged=np.array([(0, 1, 2, 1, 10.0 * step, float(step))], FLAGGED).tobytes(),
        traffic=np.array([(0, 1, 2, 3, 24)], TRAFFIC).tobytes(),
        counters=[StreamCounters(0, 1, [COUNTER])],
        figures=FIGURES,
    )


def flagged(changes: TelemetryChanges) -> list[tuple]:
    rows: Rows = np.frombuffer(changes.flagged, FLAGGED)
    return rows.tolist()


def test_what_agents_report_adds_up() -> None:
    telemetry = new_telemetry()
    for step in range(3):
        telemetry.take(AGENT, delta(step), NUMBERS)
    changes = telemetry.changes()
    assert flagged(changes) == [(0, 1, 5, 3, 30.0, 2.0)]
    assert np.frombuffer(changes.traffic, TRAFFIC).tolist() == [(0, 1, 2, 9, 72)]
    assert [(one.ranks, one.statistics) for one in changes.counters] == [(1, COUNTER)]
    assert changes.agents == {AGENT: FIGURES}
    assert not telemetry.changes()


def test_only_what_changed_is_reported() -> None:
    telemetry = new_telemetry()
    telemetry.take(AGENT, delta(0), NUMBERS)
    telemetry.changes()
    telemetry.take(AGENT, TelemetryDelta(np.array([(0, 4, 0, 2, 1.0, 9.0)], FLAGGED).tobytes()), NUMBERS)
    assert telemetry.changes() == TelemetryChanges(
        flagged=np.array([(0, 4, 7, 2, 1.0, 9.0)], FLAGGED).tobytes()
    )
    assert len(flagged(telemetry.everything())) == 2
    assert telemetry.changes(is_last=True) == telemetry.everything()


def test_saving_in_between_hides_nothing() -> None:
    telemetry = new_telemetry()
    for rows in windows(2, 6, functions=3, slow=[3], factor=1.3):
        telemetry.take(AGENT, TelemetryDelta(paces=rows.tobytes()), NUMBERS)
    telemetry.dump()
    assert telemetry.changes().slow_ranks


def test_what_was_saved_goes_on() -> None:
    straight, first, second = new_telemetry(), new_telemetry(), new_telemetry()
    paces = list(windows(2, 6, functions=3, slow=[3], factor=1.3))
    for telemetry in (straight, first):
        telemetry.take(AGENT, delta(0), NUMBERS)
        for rows in paces[:4]:
            telemetry.take(AGENT, TelemetryDelta(paces=rows.tobytes()), NUMBERS)
    second.restore(first.dump())
    assert not second.changes().flagged
    for telemetry in (straight, second):
        telemetry.take(AGENT, delta(1), NUMBERS)
        for rows in paces[4:]:
            telemetry.take(AGENT, TelemetryDelta(paces=rows.tobytes()), NUMBERS)
        telemetry.changes()
    assert second.everything() == straight.everything()
    slow = second.everything().slow_ranks
    assert slow and {(one.rank, one.node) for one in slow} == {(3, "node3")}
    assert {one.function for one in slow} <= {"", "f3", "f5", "f7"}


def test_all_that_is_known_is_saved() -> None:
    telemetry, restored = new_telemetry(), new_telemetry()
    paths = [ProgramPaths(0, path_rows([((0, 2), 5)]).tobytes())]
    timers = np.array([(0, 1, 2, 1, 5.0, 5.0), (0, 1, -1, 2, 0.0, 7.0)], TIMER)
    pace = np.array([(0, 1, 0, 2, 1, 5.0)], PACE).tobytes()
    telemetry.take(AGENT, delta(0), NUMBERS)
    telemetry.take(AGENT, TelemetryDelta(paths=paths, timers=timers.tobytes(), paces=pace), NUMBERS)
    saved = telemetry.dump()
    for name in SavedTelemetry.__struct_fields__:
        assert getattr(saved, name) != getattr(SavedTelemetry(), name), f"{name}: is not saved"
    restored.restore(saved)
    assert restored.dump() == saved
    assert restored.timers().tolist() == [(0, 1, 5, 1, 5.0, 5.0), (0, 1, -1, 2, 0.0, 7.0)]
