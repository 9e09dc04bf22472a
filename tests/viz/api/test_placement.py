"""Where the analysis had best run: the API's answer, and the command's."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from chimbuko.cli.execute.launch import command as launch
from chimbuko.cli.observe.agents import command
from chimbuko.core.errors import ConfigError
from chimbuko.plan.placingcosts import usual
from chimbuko.provenance.query.placing import on_trace_clock
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.telemetry import AgentFigures, AgentLoad
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import MadeRun, make_run

LOADS = [AgentLoad(10.0, 4, 40, rows, 48 * rows, 0.3 + rows * 6e-7, 0.05) for rows in 2 * (10_000, 1_000_000)]
FIGURES = AgentFigures("node1", 4, 80_000_000, 12.5, 4_096, 0.4, LOADS)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run whose agent has said what it took."""
    run = make_run(tmp_path_factory.mktemp("runs") / "heat")
    named = {name: getattr(FIGURES, name) for name in FIGURES.__struct_fields__}
    report = {"slow_ranks": [], "analysis": {"agents": {"a": named}, "streams": []}, "version": 1}
    run.directory.report_path.write_bytes(gzip.compress(msgspec.json.encode(report)))
    return run


def test_the_page_gets_what_the_command_prints(reported: MadeRun) -> None:
    with open_run(reported.directory) as provenance:
        feed = Feed(reported.directory, provenance, None)
        info = reported.directory.read_info()
        api = Api(create_app(provenance, info, feed, TOKEN, static=Path("no page")).test_client())
        (node,) = api.ask("placement").json["nodes"]
    (printed,) = json.loads(CliRunner().invoke(command, [str(reported.directory.path), "--json"]).output)
    for name in ("node", "agents", "cores", "transport"):
        assert node[name] == printed[name]
    assert node["streams"] == 4 and node["period_us"] == 1e6 * printed["period_s"]
    assert [f"{one['where']}={one['cores']:g}" for one in node["placements"]] == [
        one["placement"] for one in printed["placements"]
    ]
    assert any(one["cores"] == 0.5 for one in node["placements"])
    assert [one["measured_us"] for one in node["intervals"]] == [
        1e6 * one["measured_s"] for one in printed["intervals"]
    ]
    assert node["intervals"][0]["measured_us"] == pytest.approx(1e6 * LOADS[0].cpu_s / 10)


def test_the_command_has_all_of_it_for_people(reported: MadeRun) -> None:
    text = CliRunner().invoke(command, [str(reported.directory.path)]).output
    assert "node1: --agents 1 --period" in text
    assert "4 streams with 50,500 events/s" in text
    assert "shared" in text and "own" in text


def test_the_clock_of_a_recorded_trace_is_its_own() -> None:
    read_fast = [msgspec.structs.replace(load, seconds=0.1) for load in LOADS]
    found = on_trace_clock(read_fast, trace_s=40.0)
    assert [load.seconds for load in found] == [10.0] * 4
    assert [load.cpu_s - read.cpu_s for load, read in zip(found, read_fast, strict=True)] == pytest.approx(
        [10 * usual().cpu_s.second] * 4
    )


def test_a_run_without_agents_says_so(api: Api, finished: MadeRun) -> None:
    assert api.ask("placement").json["nodes"] == []
    with pytest.raises(ConfigError, match="has left no report"):
        CliRunner().invoke(command, [str(finished.directory.path)], catch_exceptions=False)


def test_the_next_job_follows_it(reported: MadeRun) -> None:
    folder = str(reported.directory.path)
    words = ["--hosts", "a,b", "-n", "4", "--advised", folder, "--cores", "3", "--", "./app"]
    found = CliRunner().invoke(launch, words)
    (advised,) = re.findall(r"as \S+ advises: (--period \d+ --transport files)\n", found.output)
    assert '--cores "3"' in found.output
    assert f'serve "$run" --bind "$here" {advised}' in found.output
