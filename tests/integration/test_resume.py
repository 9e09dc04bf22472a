"""Services of a run on many nodes that are killed, and go on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.membership import SILENT_AFTER_S
from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.integration.conftest import AGENT, Command, command_line, descendants
from tests.integration.test_many_nodes import (
    CHIMBUKO,
    begin_by_hand,
    begin_services,
    ended,
    health_of,
    wait_until,
)
from tests.patience import PATIENCE_S
from tests.thorough import first

SERVE = [*CHIMBUKO, "serve"]


def steps_of(run: RunDirectory) -> int:
    return sum(stream.steps for stream in health_of(run))


def calls_of(run: RunDirectory) -> dict[str, int]:
    """Calls of each function."""
    with open_run(run) as provenance:
        return {function.name: function.calls for function in provenance.function_statistics()}


def refusal(*words: str) -> str:
    done = subprocess.run([*SERVE, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == ConfigError.exit_code, done.stderr
    return done.stderr


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """As when a node is gone: none of them has time for anything."""
    for pid in (process.pid, *descendants(process.pid)):
        # Most are gone with their parent.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def taken(port: int | None) -> socket.socket:
    """A port of a killed service, once nobody's connection has it any more."""
    for _ in range(300):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port or 0))
        time.sleep(0.1)
    raise AssertionError(f"port {port} is not free")


@pytest.mark.parametrize("parts", first(1, [1, 3]))
def test_services_that_were_killed_go_on(tmp_path: Path, parts: int) -> None:
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, Transport.FILES)
    with ended(job):
        services = begin_services(run, job, "--server-parts", str(parts))
        agent = subprocess.Popen([*CHIMBUKO, "agent", str(run.path), "--streams", str(streams)])
        with ended(agent):
            wait_until(lambda: steps_of(run) >= 3, job)
            assert "its services are at work on this node" in refusal(str(run.path), "--resume")
            assert "only --bind" in refusal(str(run.path), "--resume", "--threshold", "3")
            before, address = steps_of(run), run.read_broker_url()
            kill_all(services)
            # Where that fails all is as it was, for the next try.
            port = urlsplit(address).port
            with taken(port):
                failed = [*SERVE, str(run.path), "--resume", "--bind", f"127.0.0.1:{port}"]
                assert (
                    subprocess.run(failed, check=False, timeout=PATIENCE_S).returncode
                    == ServiceError.exit_code
                )
            assert run.read_broker_url() == address
            resumed = subprocess.Popen(
                [*SERVE, str(run.path), "--resume", "--bind", "127.0.0.1"], stderr=subprocess.PIPE, text=True
            )
            with ended(resumed):
                wait_until(lambda: run.read_broker_url() != address, job)
                wait_until(lambda: steps_of(run) >= before + 3, job)
                job.communicate()
                assert job.returncode == 0
                subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
                assert agent.wait(PATIENCE_S) == 0
                _, said = resumed.communicate(timeout=PATIENCE_S)
                assert resumed.returncode == 0, said
    assert no_loss(said)
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    assert (stream.state, stream.steps, stream.gap_steps) == ("ended", measured["steps"], 0)
    assert (stream.rows, stream.losses) == (measured["rows"], {})
    undisturbed = RunDirectory(tmp_path / "undisturbed")
    words = ["run", "--output", str(undisturbed.path), "--trace", str(streams / "*.bp")]
    subprocess.run([*CHIMBUKO, *words], check=True, timeout=PATIENCE_S)
    assert calls_of(run) == calls_of(undisturbed)
    assert "is 'finished'" in refusal(str(run.path), "--resume")


@pytest.mark.thorough
def test_services_that_could_not_start_are_started_in_the_same_folder(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with taken(None) as occupier:
        words = (run.path, "--no-dashboard", "--bind", f"127.0.0.1:{occupier.getsockname()[1]}")
        failed = Command("serve", *words)
        assert failed.end() == ServiceError.exit_code, failed.output
        assert run.read_info().state == "failed"
        again = Command("serve", run.path, "--resume")
        assert again.end() == ServiceError.exit_code, again.output
        assert run.read_info().state == "failed"
    started = Command("serve", run.path, "--resume", "--bind", "127.0.0.1")
    started.wait_for_line("services are ready")
    assert run.read_info().state == "running"
    assert Command("stop", run.path).end() == 0
    assert started.end() == 0, started.output
    assert run.read_info().state == "finished"


@pytest.mark.thorough
def test_an_agent_that_comes_while_services_are_gone_waits_for_them(tmp_path: Path) -> None:
    """Between the moment in which it has heard of them and the one in which it can read."""
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, Transport.FILES)
    with ended(job):
        services = begin_services(run, job)
        words, log = [*CHIMBUKO, "agent", str(run.path), "--streams", str(streams)], tmp_path / "agent.log"
        with log.open("w") as said, ended(agent := subprocess.Popen(words, stderr=said)):
            wait_until(lambda: any(AGENT in command_line(pid) for pid in descendants(agent.pid)), job)
            kill_all(services)
            wait_until(lambda: "reads the streams" in log.read_text(), job)
            with ended(subprocess.Popen([*SERVE, str(run.path), "--resume", "--bind", "127.0.0.1"])):
                wait_until(lambda: steps_of(run) >= 3, job)
                job.communicate()
                subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
                assert agent.wait(PATIENCE_S) == 0
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    assert (stream.state, stream.steps, stream.rows) == ("ended", measured["steps"], measured["rows"])


@pytest.mark.thorough
def test_an_agent_whose_supervisor_was_killed_comes_again(tmp_path: Path) -> None:
    """As job scripts do, at once; nothing is lost between the two."""
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, Transport.FILES)
    words = [*CHIMBUKO, "agent", str(run.path), "--streams", str(streams)]
    with ended(job):
        services = begin_services(run, job)
        agent = subprocess.Popen(words)
        with ended(services, agent):
            wait_until(lambda: steps_of(run) >= 3, job)
            before = steps_of(run)
            agent.kill()
            agent.wait()
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as successor, ended(successor):
                wait_until(lambda: steps_of(run) >= before + 5, job)
                job.communicate()
                subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
                _, said = successor.communicate(timeout=PATIENCE_S)
                assert successor.returncode == 0, said
            assert services.wait(PATIENCE_S) == 0
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    assert (stream.state, stream.steps, stream.rows) == ("ended", measured["steps"], measured["rows"])
    assert (stream.gap_steps, stream.losses) == (0, {})


@pytest.mark.thorough
def test_an_agent_that_is_long_in_coming_is_not_taken_for_a_silent_one(
    command: Callable[..., Command], tmp_path: Path
) -> None:
    """Its process stands still while it starts, as on a node that has no time for it."""
    run = RunDirectory(tmp_path / "run")
    services = command("serve", run.path, "--no-dashboard")
    services.wait_for_line("services are ready")
    agent = command("agent", run.path)
    starting = agent.service(AGENT)
    os.kill(starting, signal.SIGSTOP)
    services.wait_for_line("is at work")
    time.sleep(SILENT_AFTER_S + 2.0)
    os.kill(starting, signal.SIGCONT)
    agent.wait_for_line("reads the streams")
    assert command("stop", run.path).end() == 0
    assert agent.end() == services.end() == 0
    assert "nothing is heard" not in services.output


def test_a_run_that_is_ended_before_its_program_came_is_interrupted(
    command: Callable[..., Command], tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "run")
    services = command("serve", run.path, "--no-dashboard")
    services.wait_for_line("services are ready")
    services.process.terminate()
    assert services.end() == 0, services.output
    assert run.read_info().state == INTERRUPTED


def test_the_dashboard_is_where_its_file_says(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")

    def visited(services: subprocess.Popen[bytes]) -> int:
        """The process of the dashboard, which has answered at that address."""
        address = run.dashboard_path.read_text()
        assert requests.get(address, timeout=PATIENCE_S).status_code == 200
        (found,) = [pid for pid in descendants(services.pid) if "chimbuko.viz " in command_line(pid)]
        return found

    with subprocess.Popen([*SERVE, str(run.path)]) as services:
        wait_until(run.dashboard_path.exists, services)
        before, address = visited(services), run.dashboard_path.read_text()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: visited(services) != before, services)
        assert run.dashboard_path.read_text() == address
        kill_all(services)
    with subprocess.Popen([*SERVE, str(run.path), "--resume"]) as resumed, ended(resumed):
        wait_until(lambda: run.dashboard_path.read_text() != address, resumed)
        visited(resumed)
        subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
        assert resumed.wait(PATIENCE_S) == 0
    assert not run.dashboard_path.exists()


@pytest.mark.thorough
def test_an_agent_that_was_killed_at_the_end_comes_again_and_delivers(tmp_path: Path) -> None:
    """The run is to end by then, and waits for it."""
    run = RunDirectory(tmp_path / "run")
    job, streams, report = begin_by_hand(tmp_path, Transport.FILES)
    words = [*CHIMBUKO, "agent", str(run.path), "--streams", str(streams)]
    with ended(job):
        services = begin_services(run, job)
        agent = subprocess.Popen(words)
        with ended(services, agent):
            wait_until(lambda: steps_of(run) >= 3, job)
            kill_all(agent)
            job.communicate()
            subprocess.run([*CHIMBUKO, "stop", str(run.path)], check=True)
            assert subprocess.run(words, check=False, timeout=PATIENCE_S).returncode == 0
            assert services.wait(PATIENCE_S) == 0
    measured = json.loads(report.read_text())
    (stream,) = health_of(run)
    assert (stream.state, stream.steps, stream.rows) == ("ended", measured["steps"], measured["rows"])
    undisturbed = RunDirectory(tmp_path / "undisturbed")
    again = ["run", "--output", str(undisturbed.path), "--trace", str(streams / "*.bp")]
    subprocess.run([*CHIMBUKO, *again], check=True, timeout=PATIENCE_S)
    assert calls_of(run) == calls_of(undisturbed)


@pytest.mark.parametrize("patience", ["0min", "2d", "soon"])
def test_patience_that_makes_no_sense_is_refused(tmp_path: Path, patience: str) -> None:
    words = [*CHIMBUKO, "agent", str(tmp_path / "run"), "--patience", patience]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == ConfigError.exit_code
    assert patience in done.stderr or "--patience" in done.stderr


@pytest.mark.thorough
def test_an_agent_waits_for_services_as_long_as_it_is_patient(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    job, streams, _ = begin_by_hand(tmp_path, Transport.FILES)
    with ended(job):
        services = begin_services(run, job)
        words = [*CHIMBUKO, "agent", str(run.path), "--streams", str(streams), "--patience", "0.05min"]
        with ended(services), subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as agent:
            wait_until(lambda: steps_of(run) >= 1, job)
            kill_all(services)
            _, said = agent.communicate(timeout=PATIENCE_S)
        job.communicate()
    assert agent.returncode == 4 and "--patience" in said
    late = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert late.returncode == 4 and "services that come back" in late.stderr
