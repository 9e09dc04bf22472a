"""A recorded trace that agents of several nodes share gives what one agent finds in it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import StreamNames
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.integration.conftest import AGENT, Command, Outcome, Start
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, by_ssh, cluster
from tests.patience import PATIENCE_S
from tests.viz.asking import wait_until, wait_until_gone

Services = Callable[..., Command]


@pytest.mark.thorough
def test_flags_are_those_of_one_agent(
    heat4: Path, heat4_run: Outcome, command: Callable[..., Command], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    services = command("serve", run, "--no-dashboard", "--trace", heat4 / "*.bp", "--agents", "3")
    agents = [command("agent", run, "--node", name) for name in ("a", "b", "c")]
    for agent in agents:
        agent.wait_for_line("of 3 of 4 recorded streams")
    late = command("agent", run, "--node", "d")
    assert [one.end() for one in (*agents, late)] == [0] * 4
    assert services.end() == 0, services.output
    found = Outcome(run)
    assert found.ids == heat4_run.ids and len(found.ids) > 100
    severities = {call.id: call.severity_us for call in found.anomalies}
    assert severities == {call.id: call.severity_us for call in heat4_run.anomalies}
    assert sum(stream.calls for stream in found.health) == sum(stream.calls for stream in heat4_run.health)
    assert {stream.node for stream in found.health} == {"a", "b", "c"}


@pytest.fixture
def shared(command: Services, heat4: Path, tmp_path: Path) -> tuple[Command, Command]:
    """Services for two agents, and the first of them, which waits for the other one's streams."""
    services = command(
        "serve", tmp_path / "run", "--no-dashboard", "--trace", heat4 / "*.bp", "--agents", "2"
    )
    agent = command("agent", tmp_path / "run", "--node", "a")
    agent.wait_for_line("reads share 1 of 2")
    return services, agent


def what_came_of(run: Outcome) -> object:
    """How it ended, its flags, and what each rank had."""
    severities = {call.id: call.severity_us for call in run.anomalies}
    return run.info.state, severities, [(one.rank, one.calls, one.steps) for one in run.health]


@pytest.mark.thorough
@pytest.mark.parametrize("killed", ["readers", "agent", "whole agent"])
def test_what_was_killed_goes_on(
    shared: tuple[Command, Command],
    command: Services,
    heat4_run: Outcome,
    tmp_path: Path,
    killed: str,
) -> None:
    services, first = shared
    agent = first.service(AGENT)
    first.wait_until(lambda: len(first.readers) == 2)
    if killed == "whole agent":
        # A job script starts it again.
        first.process.kill()
        first = command("agent", tmp_path / "run", "--node", "a")
        first.wait_for_line("reads share 1 of 2")
    elif killed == "readers":
        for reader in first.readers:
            os.kill(reader, signal.SIGKILL)
    else:
        os.kill(agent, signal.SIGKILL)
        first.wait_for_line("ended early and was started again")
    second = command("agent", tmp_path / "run", "--node", "b")
    assert [first.end(), second.end(), services.end()] == [0, 0, 0], services.output + first.output
    assert no_loss(services.output)
    assert what_came_of(Outcome(tmp_path / "run")) == what_came_of(heat4_run)


@pytest.mark.thorough
def test_streams_of_a_whole_agent_that_was_killed_are_waited_for(
    shared: tuple[Command, Command], command: Services, heat4_run: Outcome, tmp_path: Path
) -> None:
    """What it leaves behind ends at once, and not as if its streams were over: others would go on."""
    services, first = shared
    second = command("agent", tmp_path / "run", "--node", "b")
    second.wait_for_line("reads share 2 of 2")
    first.wait_until(lambda: len(first.readers) == 2)
    left = [first.service(AGENT), *first.readers]
    first.process.kill()
    wait_until_gone(left)
    assert "given up" not in (RunDirectory(tmp_path / "run").logs / "agent-a.log").read_text()
    again = command("agent", tmp_path / "run", "--node", "a")
    assert [again.end(), second.end(), services.end()] == [0, 0, 0], services.output + again.output
    assert no_loss(services.output)
    assert what_came_of(Outcome(tmp_path / "run")) == what_came_of(heat4_run)


@pytest.mark.thorough
def test_an_agent_that_is_asked_to_end_ends_the_run(shared: tuple[Command, Command], tmp_path: Path) -> None:
    services, agent = shared
    agent.interrupt()
    assert (agent.end(), services.end()) == (0, 130), services.output
    assert Outcome(tmp_path / "run").info.state == "interrupted"
    assert "of 2 shares of the trace 2 are not read to the end (agent-a, nobody took it)" in services.output


@pytest.mark.thorough
def test_what_nobody_has_read_is_said_where_the_run_is_ended_before(
    shared: tuple[Command, Command], tmp_path: Path
) -> None:
    services, agent = shared
    services.interrupt()
    assert (services.end(), agent.end()) == (130, 0), services.output
    assert Outcome(tmp_path / "run").info.state == "interrupted"
    assert "of 2 shares of the trace 2 are not read to the end (agent-a, nobody took it)" in services.output


@pytest.mark.thorough
def test_a_job_whose_agents_start_over_ssh_gives_the_flags_of_one_node(
    heat4: Path, heat4_run: Outcome, tmp_path: Path
) -> None:
    run, script, log = tmp_path / "run", tmp_path / "job.sh", tmp_path / "job.log"
    launch = [*CHIMBUKO, "launch", "--hosts", "node0,node1,node2", "--trace", heat4 / "*.bp"]
    subprocess.run([*map(str, launch), "--run", str(run), "-o", str(script)], check=True)
    try:
        with cluster(3, tmp_path) as three:
            environment = by_ssh(three.nodes, tmp_path)
            job = three.nodes[0].start(["bash", script], log, environment)
            assert job.wait(200) == 0, log.read_text()
    except NotPermitted as reason:
        pytest.skip(f"no nodes can be made here: {reason}")
    found = Outcome(run)
    assert found.info.state == "finished" and no_loss(log.read_text())
    assert {call.id: call.severity_us for call in found.anomalies} == {
        call.id: call.severity_us for call in heat4_run.anomalies
    }
    assert [(one.rank, one.calls, one.steps) for one in found.health] == [
        (one.rank, one.calls, one.steps) for one in heat4_run.health
    ]
    assert {stream.node for stream in found.health} == {"node0", "node1", "node2"}


@pytest.mark.thorough
@pytest.mark.parametrize("is_interrupted", [False, True], ids=["unreachable", "ctrl-c"])
def test_a_job_over_ssh_ends_on_all_nodes_where_one_is_unreachable_and_after_ctrl_c(
    heat4: Path, tmp_path: Path, is_interrupted: bool
) -> None:
    run, script, log = tmp_path / "run", tmp_path / "job.sh", tmp_path / "job.log"
    hosts = "node0,node1" if is_interrupted else "node0,node1,nowhere"
    # Nothing goes on while an agent more is waited for.
    launch = [*CHIMBUKO, "launch", "--hosts", hosts, "--trace", heat4 / "*.bp", "--run", run, "-o", script]
    subprocess.run(launch, check=True)
    if is_interrupted:
        script.write_text(script.read_text().replace('--agents "${#hosts[@]}"', "--agents 3"))
    try:
        with cluster(2, tmp_path) as two:
            # As from a terminal, the script is the first process of a group of its own.
            words = ["sh", "-c", "echo $$ > $0.pid; exec bash $0", script]
            job = two.nodes[0].start(["setsid", "--wait", *words], log, by_ssh(two.nodes, tmp_path))
            if is_interrupted:
                wait_until(lambda: log.read_text().count("reads share") == 2)
                interrupt = f"kill -s INT -- -$(cat {script}.pid)"
                assert two.nodes[0].call(["sh", "-c", interrupt], tmp_path).returncode == 0
            assert job.wait(PATIENCE_S) == 130, log.read_text()
            wait_until(lambda: not processes_of(run))
    except NotPermitted as reason:
        pytest.skip(f"no nodes can be made here: {reason}")
    said = log.read_text()
    assert said.count("agent on nowhere ended, code 255; nobody reads its share") == (not is_interrupted)
    assert "of 3 shares of the trace 3 are not read to the end" in said and "Traceback" not in said
    assert "nothing recorded the program" not in said
    assert Outcome(run).info.state == "interrupted"


def processes_of(run: Path) -> list[str]:
    """Commands that are at work for a run, on all nodes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in found if str(run) in command]


def broken_off(folder: Path, last_us: Iterable[int]) -> None:
    """Streams of ranks that do the same, until each breaks off in a call that began at its time."""
    names = StreamNames({0: "main", 1: "relax"}, {}, {0: "ENTRY", 1: "EXIT"})
    for rank, at_us in enumerate(last_us):
        rows = [[0, rank, 0, 0, 0, 1_000_000]]
        rows += [[0, rank, 0, k % 2, 1, 1_000_100 + 1_000 * k] for k in range(2_000)]
        rows += [[0, rank, 0, 0, 1, at_us]]
        with StreamWriter(folder / f"tau-metrics-app-{rank}.bp") as writer:
            none = np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64)
            writer.write_step(np.array(rows, np.uint64), *none, names)


@pytest.mark.thorough
def test_a_call_that_never_ended_is_found_whoever_reads_the_ranks_that_went_on(
    start: Start, tmp_path: Path
) -> None:
    broken_off(tmp_path, [90_000_000, 10_000_000])
    found = []
    for agents in ("1", "2"):
        run = start("--trace", tmp_path / "*.bp", "--agents", agents, "--no-dashboard")
        assert run.end() == 0, run.output
        with open_run(RunDirectory(run.folder)) as provenance:
            statistics = provenance.function_statistics()
        found.append(({(call.id, call.severity_us) for call in run.anomalies}, statistics))
    assert found[0] == found[1]
    (rank_of_call,) = {id.split(":")[1] for id, _ in found[0][0]}
    assert rank_of_call == "1"
