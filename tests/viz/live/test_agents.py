"""Agents as they last spoke."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from chimbuko.runtime.protocol.telemetry import SILENT_AFTER_S, AgentFigures, SlowRank, TelemetryChanges
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.live.feedevents import Moment
from chimbuko.viz.live.healthhistory import Agents

READING = AgentFigures("c042", 4, 80_000_000, 12.5, 4_096, 0.4)
OVER = AgentFigures("c043", 0, 60_000_000, 9.0, 0, 0.1)
SLOW = SlowRank(0, 3, "c042", "relax()", 1.4, 6.0, 2_000_000.0, 12, 8)


def at(clock_s: float) -> Moment:
    return Moment(clock_s, 1_700_000_000_000_000 + round(1e6 * clock_s))


def test_the_newest_of_each_agent_counts() -> None:
    agents = Agents().with_changes(TelemetryChanges(agents={"b": READING, "a": OVER}), at(100.0))
    newer = AgentFigures("c042", 4, 90_000_000, 13.0, 0, 0.0)
    agents = agents.with_changes(TelemetryChanges(agents={"b": newer}), at(110.0))
    first, second = agents.states(at(112.0))
    assert (first.name, first.node, first.age_s) == ("a", "c043", 12.0)
    assert (second.name, second.pss_bytes, second.age_s) == ("b", 90_000_000, 2.0)
    assert [agent.age_s for agent in agents.states(None)] == [None, None]


def test_an_agent_with_streams_that_does_not_speak_is_silent() -> None:
    agents = Agents().with_changes(TelemetryChanges(agents={"a": OVER, "b": READING}), at(0.0))
    assert agents.silent(at(SILENT_AFTER_S)) == []
    assert agents.silent(at(SILENT_AFTER_S + 1)) == ["c042"], "what has read all its streams need not speak"
    agents = agents.with_changes(TelemetryChanges(), at(SILENT_AFTER_S))
    assert agents.silent(at(SILENT_AFTER_S + 1)) == ["c042"], "news of others are none of its own"
    agents = agents.with_changes(TelemetryChanges(agents={"b": READING}), at(SILENT_AFTER_S))
    assert agents.silent(at(SILENT_AFTER_S + 1)) == []


def test_services_say_earlier_who_is_silent() -> None:
    agents = Agents().with_changes(TelemetryChanges(agents={"a": OVER, "b": READING}), at(0.0))
    since_us = at(1.0).epoch_us - 9_000_000
    agents = agents.with_changes(TelemetryChanges(silent={"b": since_us}), at(1.0))
    assert agents.silent(at(1.0)) == ["c042"]
    _, silent = agents.states(at(1.0))
    assert silent.is_silent and silent.age_s == 9.0
    assert not any(one.is_silent for one in agents.states(None))
    agents = agents.with_changes(TelemetryChanges(silent={}), at(2.0))
    assert agents.silent(at(2.0)) == []


def test_slow_ranks_stay_until_there_are_others() -> None:
    agents = Agents().with_changes(TelemetryChanges(slow_ranks=[SLOW]), at(0.0))
    agents = agents.with_changes(TelemetryChanges(), at(1.0))
    assert agents.slow_ranks == [SLOW]
    agents = agents.with_changes(TelemetryChanges(slow_ranks=[]), at(2.0))
    assert agents.slow_ranks == []
    of_another_part = msgspec.structs.replace(SLOW, program=1, lost_us=3_000_000.0)
    agents = agents.with_changes(TelemetryChanges(slow_ranks=[SLOW]), at(3.0))
    agents = agents.with_changes(TelemetryChanges(slow_ranks=[of_another_part]), at(4.0), part=1)
    assert agents.slow_ranks == [of_another_part, SLOW]
    agents = agents.with_changes(TelemetryChanges(slow_ranks=[]), at(5.0))
    assert agents.slow_ranks == [of_another_part]


def test_after_the_end_the_report_reports(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert Agents.at_end(run) == Agents()
    named = {name: getattr(READING, name) for name in READING.__struct_fields__}
    report = {"slow_ranks": [SLOW], "analysis": {"agents": {"b": named}, "streams": []}, "version": 1}
    run.report_path.write_bytes(gzip.compress(msgspec.json.encode(report)))
    agents = Agents.at_end(run)
    (only,) = agents.states(None)
    assert (only.name, only.node, only.cpu_s, only.age_s) == ("b", "c042", 12.5, None)
    assert agents.slow_ranks == [SLOW]
    run.report_path.write_bytes(gzip.compress(b"{}"))
    assert Agents.at_end(run).states(None) == []
