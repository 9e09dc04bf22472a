"""Services that the user brings along, and folders where a database cannot be."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import load_model
from chimbuko.launcher.agents import Agents
from chimbuko.launcher.options import AgentOptions
from chimbuko.launcher.services import brokerkeeper, storeplace
from chimbuko.launcher.services.choices import ServiceChoices, ServiceOptions
from chimbuko.launcher.services.services import Services
from chimbuko.provenance.explain.relabelling import judge_at_end
from chimbuko.provenance.query.run import open_run
from chimbuko.pserver.server import Server
from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.storyfile import last_steps
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.runbroker import RunKeys
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from examples.findings import all_anomalies
from tests.calldata import no_loss
from tests.integration.conftest import SERVER, STORE, Outcome, Start, children, command_line
from tests.storecontents import differences
from tests.thorough import first


def test_runs_share_a_broker(heat4: Path, heat4_run: Outcome, start: Start, tmp_path: Path) -> None:
    """Also when it is started anew, empty, while both are at work."""
    live = ["--replay", heat4 / "*.bp", "--pace", "6", "--lockstep", "--no-dashboard"]
    with PrivateBroker(tmp_path / "broker.log") as broker:
        runs = [start(*live, "--broker", broker.url) for _ in range(2)]
        with connect(broker.url) as client:
            runs[0].wait_until(lambda: len(cast(list[bytes], client.keys("*:record-acks"))) == 2)
        broker.stop()
        broker.start()
        for run in runs:
            assert run.end() == 0, run.output
            assert run.ids == heat4_run.ids
            assert no_loss(run.output)
        with connect(broker.url) as client:
            assert client.keys("*") == []


def test_of_a_run_that_died_nothing_stays_at_a_shared_broker_for_ever(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["true"], AnalysisConfig(), None)
    with PrivateBroker(tmp_path / "broker.log") as broker, connect(broker.url) as client:
        client.set("of somebody else", 1)
        options = ServiceOptions(
            AnalysisConfig(), has_dashboard=False, choices=ServiceChoices(broker=broker.url)
        )
        with Services(run, options, []) as served:
            served.wait_ready()
            served.broker.program_number("heat")
            times_s = {b"": -1}
            # What the server publishes meanwhile gets its time at the next look.
            while not all(0 < time_s <= brokerkeeper.KEPT_S for time_s in times_s.values()):
                assert served.look_after() == []
                times_s = {key: client.ttl(key) for key in client.keys("{chimbuko:*")}
                time.sleep(0.05)
            assert len(times_s) > 1
        assert client.keys("*") == [b"of somebody else"]


def test_a_broker_that_does_not_last_is_started_again_after_pauses(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", ["true"], AnalysisConfig(), None)
    with Services(run, ServiceOptions(AnalysisConfig(), has_dashboard=False), []) as served:
        served.wait_ready()

        def kill() -> None:
            (pid,) = (pid for pid in children(os.getpid()) if "valkey-server" in command_line(pid))
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

        kill()
        (line,) = served.look_after()
        kill()
        killed_s = time.monotonic()
        assert served.look_after() == []
        while not (lines := served.look_after()):
            time.sleep(0.01)
        assert lines == [line] and "the broker ended early" in line
        assert time.monotonic() - killed_s > 0.5
        assert served.broker.client.ping()


@pytest.mark.parametrize("is_separate", [False, True])
def test_server_and_writer_share_a_process_unless_they_are_to_be_separate(
    tmp_path: Path, is_separate: bool
) -> None:
    run = new_run(tmp_path / "run", ["true"], AnalysisConfig(), None)
    options = ServiceOptions(AnalysisConfig(), has_dashboard=False, is_separate=is_separate)
    problems: list[str] = []
    with Services(run, options, problems) as served:
        served.wait_ready()
        lines = [line for pid in children(os.getpid()) if SERVER in (line := command_line(pid))]
        assert [STORE in line for line in lines] == [not is_separate]
        assert served.look_after() == []
    assert problems == []
    # Both came to their end, the server first: what it says last is stored.
    assert set(last_steps(run.logs, 1)) == {"pserver", "provenance"}
    assert run.model_path.exists() and run.report_path.exists()


def test_a_process_that_server_and_writer_share_is_started_again_where_one_of_them_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, ready = tmp_path / "failed", tmp_path / "ready"

    def say(**facts: object) -> None:
        say_ready(**facts)
        ready.touch()

    def fail_once(self: Server, should_stop: Callable[[], bool]) -> None:
        if ready.exists() and not mark.exists():
            mark.touch()
            raise RuntimeError("the server fails")
        serve(self, should_stop)

    serve = Server.serve_once
    monkeypatch.setattr(Server, "serve_once", fail_once)
    monkeypatch.setattr("chimbuko.launcher.services.together.say_ready", say)
    run = new_run(tmp_path / "run", ["true"], AnalysisConfig(), None)
    problems: list[str] = []
    with Services(run, ServiceOptions(AnalysisConfig(), has_dashboard=False), problems) as served:
        served.wait_ready()
        while not (lines := served.look_after()):
            time.sleep(0.01)
        assert lines == [f"services ended early and was started again; its log is {run.logs}/services.log"]
    assert problems == []
    assert run.model_path.exists()
    assert "the server fails" in (run.logs / "services.log").read_text()


def test_services_that_are_killed_while_they_start_are_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them just before it is ready, when it starts for the first time."""
    modules = ["pserver.__main__", "provenance.service.__main__", "observe.namespaces.service.watching"]
    marks = [tmp_path / module for module in modules]
    for module, mark in zip(modules, marks, strict=True):
        monkeypatch.setattr(f"chimbuko.{module}.say_ready", killed_at_first(mark))
    run = new_run(tmp_path / "run", ["true"], AnalysisConfig(), None)
    choices = ServiceChoices(namespaces=str(tmp_path / "nobody"))
    options = ServiceOptions(AnalysisConfig(), has_dashboard=False, choices=choices)
    problems: list[str] = []
    with Services(run, options, problems) as served:
        served.wait_ready()
        assert [mark.read_text() for mark in marks[:2]] == [READY, READY]
        lines: list[str] = []
        # Nobody has waited for the watch.
        while not (marks[2].exists() and marks[2].read_text() == READY):
            lines += served.look_after()
            time.sleep(0.01)
        assert [line.partition(";")[0] for line in lines if "again" in line] == [
            "metricwatch ended early and was started again"
        ]
    assert [problem for problem in problems if "is not watched yet" not in problem] == []


READY = "ready"


def killed_at_first(mark: Path) -> Callable[..., None]:
    """What a process says on being ready, but for the first of several, which is killed."""

    def say(**facts: object) -> None:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        mark.write_text(READY)
        say_ready(**facts)

    return say


@pytest.mark.parametrize("parts", first(1, [3, 1, 2, 4]))
def test_a_cluster_serves_as_broker_and_several_servers_and_writers_find_what_one_does(
    start: Start, heat4: Path, heat4_run: Outcome, cluster: str, parts: int
) -> None:
    options = "--agents", "2", "--server-parts", str(parts), "--store-writers", "2"
    run = start("--trace", heat4 / "*.bp", "--broker", cluster, *options)
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids
    # What agents have learned is added up in any order, which rounds; it is compared below.
    rounded = "models", "function_statistics"
    assert [one for one in differences(run.folder, heat4_run.folder) if not one.startswith(rounded)] == []
    assert run.paths == heat4_run.paths
    assert learned_by(run) == learned_by(heat4_run)
    assert reported_by(run) == reported_by(heat4_run)
    assert connect(cluster).exists(*RunKeys(run.info.id).all()) == 0


def learned_by(run: Outcome) -> dict[tuple[str, str], list[str]]:
    """The row of each function in the run's model; agents are merged in any order, which rounds."""
    model = load_model(RunDirectory(run.folder).model_path, run.info.config)
    return {
        function: [f"{value:.9g}" for value in row]
        for function, row in zip(model.functions, model.table.tolist(), strict=True)
    }


def _rounded(text: str) -> str:
    return f"{float(text):.9g}"


def reported_by(run: Outcome) -> dict[str, Counter[str]]:
    """What the run's report lists, rounded, in any order, and however functions are numbered."""
    report = json.loads(RunDirectory(run.folder).read_report(), parse_float=_rounded, parse_int=_rounded)
    lists = {name: entries for name, entries in report.items() if isinstance(entries, list)}
    return {
        name: Counter(json.dumps(entry | {"fid": 0}, sort_keys=True) for entry in entries)
        for name, entries in lists.items()
    }


def test_unreachable_broker(start: Start, heat4: Path) -> None:
    run = start("--trace", heat4 / "*.bp", "--broker", "redis://:secret-word@127.0.0.1:1")
    assert run.end() == 4
    assert "127.0.0.1:1" in run.output
    assert "secret-word" not in run.output


def test_store_is_kept_on_local_disk_until_the_end_where_the_run_is_on_a_network(
    heat4: Path, heat4_run: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storeplace, "is_on_network", lambda folder: True)
    config = AnalysisConfig(lockstep=True)
    recorded = find_recorded([str(heat4 / "*.bp")])
    run = new_run(tmp_path / "run", ["--trace"], config, None)
    problems: list[str] = []
    options = ServiceOptions(config, lockstep_streams=4, has_dashboard=False)
    readers = AgentOptions(config, "node", ("agent-0",), recorded=recorded)
    with Services(run, options, problems) as served:
        with Agents(run, run.read_info().id, readers, served.broker_url, problems) as agents:
            assert not run.store_path.exists()
            while agents.is_analysing:
                assert [*served.look_after(), *agents.look_after()] == []
        served.finish()
        assert problems == []
    judge_at_end(run, lambda: False, problems.append)
    assert problems == []
    with open_run(run) as provenance:
        assert {call.id for call in all_anomalies(provenance)} == heat4_run.ids
