"""The final report: what the server knows, under the names that users of Chimbuko know."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from chimbuko.core.calls.record import CounterStatistics, StepCount
from chimbuko.core.errors import ServiceError
from chimbuko.core.statistics.moments import Moments
from chimbuko.pserver.state.runreport import joined_reports, read_report, write_report
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.protocol.telemetry import (
    FLAGGED,
    OTHERS,
    TRAFFIC,
    AgentFigures,
    StreamCounters,
    TelemetryDelta,
)
from tests.pserver.state.test_serverstate import NAMES, health_of, learned_of, make_agent, timers_of
from tests.pserver.state.test_stragglers import windows

RUNTIMES = [(1, 100), (1, 300), (3, 50)]
TRAFFIC_ROWS = [(0, 1, 2, 3, 24), (0, 1, OTHERS, 9, 72)]


@pytest.fixture
def server() -> ServerState:
    """At the end of a run."""
    server = ServerState()
    server.name_programs({0: "heat"})
    agent = make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, RUNTIMES), rank=1)
    agent.count([StepCount(0, 1, step, 0, 1, 5, step, 2.5) for step in range(3)], health_of(1))
    delta = agent.delta()
    numbers = {name.name: name.number for name in delta.names}
    paces = np.concatenate(list(windows(3, 6, functions=1, slow=[4], factor=1.3)))
    paces["function"] = numbers[NAMES[1]]
    counter = CounterStatistics("bytes", *Moments.of([8.0, 16.0]).row().tolist())
    telemetry = TelemetryDelta(
        flagged=np.array([(0, 1, numbers[NAMES[3]], 2, 250.0, 7.5)], FLAGGED).tobytes(),
        traffic=np.array(TRAFFIC_ROWS, TRAFFIC).tobytes(),
        paces=paces.tobytes(),
        counters=[StreamCounters(0, 1, [counter])],
        figures=AgentFigures("node1", 2, 1 << 20, 3.5, 10, 0.5),
    )
    assert server.apply(msgspec.structs.replace(delta, telemetry=telemetry))
    server.frame(is_last=True)
    return server


@pytest.fixture
def report(server: ServerState, tmp_path: Path) -> dict[str, Any]:
    """As it is read from its file."""
    write_report(tmp_path / "report.json.gz", server.report("model.json"))
    found: dict[str, Any] = json.loads(gzip.decompress((tmp_path / "report.json.gz").read_bytes()))
    return found


def test_functions_have_their_runtimes_and_anomalies(report: dict[str, Any]) -> None:
    assert (report["programs"], report["model"]) == ({"0": "heat"}, "model.json")
    functions = {one["fname"]: one for one in report["func_stats"]}
    assert functions.keys() == {NAMES[1], NAMES[3]}
    solve = functions[NAMES[1]]
    assert solve["runtime_profile"]["exclusive_runtime"] == {
        **{"count": 2, "accumulate": 400.0, "minimum": 100.0, "maximum": 300.0, "mean": 200.0},
        **{"stddev": pytest.approx(141.42, abs=0.01), "skewness": 0.0, "kurtosis": -2.0},
    }
    assert solve["runtime_profile"]["inclusive_runtime"]["count"] == 0
    assert solve["anomaly_metrics"] is None
    metrics = {"anomaly_count": 2, "severity": 250.0, "score": 7.5}
    assert functions[NAMES[3]]["anomaly_metrics"] == metrics
    assert report["anomaly_metrics"] == [
        {
            **{"app": 0, "rank": 1, "fid": functions[NAMES[3]]["fid"], "fname": NAMES[3]},
            "anomaly_metrics": metrics,
        }
    ]


def test_ranks_counters_and_messages(report: dict[str, Any]) -> None:
    [rank] = report["anomaly_stats"]
    assert (rank["key"], rank["severity"]) == ("0:1", 7.5)
    assert (rank["stats"]["count"], rank["stats"]["accumulate"], rank["stats"]["maximum"]) == (3, 3, 2)
    [counter] = report["counter_stats"]
    assert (counter["app"], counter["counter"], counter["ranks"]) == (0, "bytes", 1)
    assert (counter["stats"]["count"], counter["stats"]["mean"]) == (2, 12.0)
    assert report["messages"] == [
        {"app": 0, "source": 1, "destination": 2, "count": 3, "bytes": 24},
        {"app": 0, "source": 1, "destination": None, "count": 9, "bytes": 72},
    ]


def test_a_report_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"nowhere/report.json.gz: the report cannot be written"):
        write_report(tmp_path / "nowhere" / "report.json.gz", ServerState().report(""))


def test_slow_ranks_and_the_analysis_itself(report: dict[str, Any], server: ServerState) -> None:
    assert {(one["rank"], one["function"]) for one in report["slow_ranks"]} == {(4, ""), (4, NAMES[1])}
    statistics = server.statistics()
    assert statistics is not None
    assert msgspec.to_builtins(statistics.slow_ranks) == report["slow_ranks"]
    analysis = report["analysis"]
    assert analysis["agents"]["agent0"]["pss_bytes"] == 1 << 20
    assert [(stream["rank"], stream["state"]) for stream in analysis["streams"]] == [(1, "reading")]
    assert analysis["lost_deltas"] == 0


def test_the_reports_of_all_parts_are_one(server: ServerState, tmp_path: Path) -> None:
    write_report(tmp_path / "report.json.gz", server.report(""))
    one = read_report(tmp_path / "report.json.gz")
    assert one == server.report("")
    both = joined_reports([one, one], "model")
    assert (both.model, both.programs) == ("model", one.programs)
    ids = [function.fid for function in both.func_stats]
    assert len(set(ids)) == len(ids) == 2 * len(one.func_stats)
    names = {function.fid: function.fname for function in both.func_stats}
    assert [names[flagged.fid] for flagged in both.anomaly_metrics] == [
        flagged.fname for flagged in both.anomaly_metrics
    ]
    assert both.messages == one.messages * 2
    assert [rank.lost_us for rank in both.slow_ranks] == sorted(
        (rank.lost_us for rank in one.slow_ranks * 2), reverse=True
    )
    assert len(both.analysis.streams) == 2 * len(one.analysis.streams)
