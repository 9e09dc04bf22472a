"""Runs whose folder is on a network file system that all nodes share: sshfs, with a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs import DELAY_S, LAST_S, Job, begin
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, Cluster, Node, cluster
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.thorough


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    try:
        with cluster(3, tmp_path, tmp_path / "shared") as nodes:
            yield nodes
    except NotPermitted as reason:
        pytest.skip(f"no nodes that share a file system can be made here: {reason}")


def counted(node: Node, job: Job) -> tuple[int, str]:
    """How many anomalies ``query`` says on a node that there are, and what else it says."""
    done = node.call([*CHIMBUKO, "query", "job", "--limit", "1"], job.runs)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("1 of ")]
    return int(line.split()[2].replace(",", "")), done.stderr


def kill_services(job: Job) -> None:
    """As by the kernel, for want of memory: all of them, while their node goes on."""
    theirs = "chimbuko.provenance|chimbuko.pserver|valkey|chimbuko serve"
    job.cluster.nodes[0].call(["pkill", "-9", "-f", theirs], Path("/"))
    job.services.wait(PATIENCE_S)
    assert job.agents[0].poll() is None


def test_a_live_run_is_looked_into_from_other_nodes_and_what_died_is_delivered(
    three: Cluster, tmp_path: Path
) -> None:
    job = begin(three, tmp_path, is_shared=True)
    elsewhere = three.nodes[2]
    learned_s = job.wait_until_learned()
    time.sleep(4.0)
    before_s = time.time()
    live, said = counted(elsewhere, job)
    assert "its store is on node0; this is a new copy" in said
    assert live >= sum(job.delays(before_s - 3.0, learned_s).values())
    later, _ = counted(elsewhere, job)
    time.sleep(3.0)
    kill_services(job)
    dead, said = counted(elsewhere, job)
    print(said)
    assert dead >= later and "its store is on node0; this is the copy" in said
    ended_s = time.time()
    # Agents have nobody to deliver to, and are asked to end.
    three.ask_to_end()
    assert [agent.wait(PATIENCE_S) for agent in job.agents] == [4, 4, 4], job.said
    there = elsewhere.call([*CHIMBUKO, "runs", "deliver", "job"], job.runs)
    print(there.stderr)
    assert "more is left on node0; there, do: chimbuko runs deliver" in there.stderr
    home = three.nodes[0].call([*CHIMBUKO, "runs", "deliver", "job"], job.runs)
    assert home.returncode == 0, home.stderr
    print(home.stderr, job.said)
    truth, found = job.delays(ended_s - LAST_S, learned_s), job.found(learned_s - DELAY_S)
    print(truth, found)
    assert all(found[node] >= truth[node] for node in truth)
    assert counted(elsewhere, job)[0] >= sum(truth.values())


def test_a_run_goes_on_on_another_node(three: Cluster, tmp_path: Path) -> None:
    job = begin(three, tmp_path, is_shared=True)
    job.wait_until_learned()
    time.sleep(2.0)
    counted(three.nodes[2], job)
    # With all that it has on its own storage: what was stored since the copy is lost, and nothing after it.
    three.nodes[0].kill()
    killed_s = time.time()
    time.sleep(3.0)
    words = [*CHIMBUKO, "serve", job.place, "--resume", "--bind", three.nodes[1].address]
    job.services = three.nodes[1].start(words, tmp_path / "resumed.log")
    job.wait_for(lambda: "services are ready" in (tmp_path / "resumed.log").read_text())
    time.sleep(3.0)
    (tmp_path / "end").touch()
    for program in job.programs[2:]:
        assert program.wait(PATIENCE_S) == 0
    stopped = three.nodes[2].call([*CHIMBUKO, "stop", "job"], job.runs)
    assert stopped.returncode == 0, stopped.stderr
    assert [agent.wait(PATIENCE_S) for agent in job.agents[1:]] == [0, 0], job.said
    assert job.services.wait(PATIENCE_S) == 0, job.said
    truth, found = job.delays(time.time(), killed_s), job.found(killed_s)
    print(truth, found, job.said)
    print((job.run.logs / "pserver.log").read_text())
    assert all(found[node.name] >= truth[node.name] for node in three.nodes[1:])
    assert job.run.read_info().state == "finished"
    assert "ended early" not in job.said
