"""A job that its scheduler ends: SIGTERM for all processes of all nodes at once, SIGKILL some time later."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from examples.findings import all_anomalies
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, Cluster, Node, cluster, wait_until_ended

RANKS_PER_NODE = 2
DELAY_S = 0.2
WORKS_S = 6.0
LAST_S = 1.0
"""What happened so shortly before the end of a traced Python program may not be written."""
PROGRAM = f"""
import sys, time

def relax(seconds):
    time.sleep(seconds)

with open(sys.argv[1], "w", buffering=1) as truth:
    for number in range(1, 1_000_000):
        is_slow = number % 300 == 0
        relax({DELAY_S} if is_slow else 0.001)
        if is_slow and number > 300:
            print(time.time(), file=truth)
"""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    try:
        with cluster(3, tmp_path) as nodes:
            yield nodes
    except NotPermitted as reason:
        pytest.skip(f"no nodes can be made here: {reason}")


@dataclass
class Job:
    """A run on all nodes of a cluster, its services on the first."""

    cluster: Cluster
    folder: Path
    services: subprocess.Popen[bytes]
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run(self) -> RunDirectory:
        """Its folder."""
        return RunDirectory(self.folder / "chimbuko-runs" / "job")

    def delays(self, before_s: float) -> dict[str, int]:
        """How many there were before a moment, by node."""
        return {node.name: sum(at_s < before_s for at_s in self._truth(node)) for node in self.cluster.nodes}

    def _truth(self, node: Node) -> list[float]:
        paths = self.folder.glob(f"truth-{node.name}-*")
        return [float(line) for path in paths for line in path.read_text().split()]

    def found(self) -> dict[str, int]:
        """How many are in the store, by node."""
        counts = dict.fromkeys((node.name for node in self.cluster.nodes), 0)
        with open_run(self.run) as provenance:
            for call in all_anomalies(provenance):
                if "relax" in call.function and call.inclusive_us > 0.8e6 * DELAY_S:
                    counts[call.node] += 1
        return counts

    def end(self, grace_s: float) -> float:
        """End it as a scheduler does; seconds in which all have ended by themselves, at most ``grace_s``."""
        self.cluster.ask_to_end()
        took_s = wait_until_ended([self.services, *self.others], grace_s)
        for node in self.cluster.nodes:
            node.kill()
        return took_s

    @property
    def said(self) -> str:
        """All that its processes have said."""
        return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 100.0) -> None:
        """Wait for a condition by asking for it."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline and self.services.poll() is None, self.said
            time.sleep(0.1)


def begin(nodes: Cluster, folder: Path) -> Job:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    first = nodes.nodes[0]
    run = folder / "chimbuko-runs" / "job"
    serve = [*CHIMBUKO, "serve", run, "--bind", first.address, "--no-dashboard"]
    job = Job(nodes, folder, first.start(serve, folder / "serve.log"))
    job.wait_for(job.run.broker_path.exists)
    for node in nodes.nodes:
        log = folder / f"agent-{node.name}.log"
        job.others.append(node.start([*CHIMBUKO, "agent", run], log))
        for number in range(RANKS_PER_NODE):
            rank = number + len(job.others)
            words = [job.run.node_command, *CHIMBUKO, "trace", program, folder / f"truth-{node.name}-{rank}"]
            own = {"CHIMBUKO_RANK": str(nodes.nodes.index(node) * RANKS_PER_NODE + number)}
            job.others.append(node.start(words, folder / f"rank-{rank}.log", own))
    return job


def is_at_work(job: Job) -> bool:
    return job.run.store_path.exists() and all(job.found().values())


@pytest.mark.parametrize(
    "grace_s",
    [pytest.param(5, marks=pytest.mark.thorough), 30, pytest.param(120, marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("is_cut_off", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_what_was_found_in_a_job_that_is_ended_is_not_lost(
    three: Cluster, tmp_path: Path, grace_s: int, is_cut_off: bool
) -> None:
    """Also where the way from a node to the services is cut, as that is often why a job is ended."""
    with ExitStack() as cut:
        job = begin(three, tmp_path)
        job.wait_for(lambda: is_at_work(job))
        if is_cut_off:
            cut.enter_context(three.network.cable_pulled(2))
        time.sleep(WORKS_S)
        ended_s = time.time()
        took_s = job.end(grace_s)
    truth, stored = job.delays(ended_s - LAST_S), job.found()
    services, elsewhere = three.nodes[0], three.nodes[1]
    with services, elsewhere:
        listed = services.call([*CHIMBUKO, "runs", "list"], tmp_path)
        delivered = elsewhere.call([*CHIMBUKO, "deliver", "job"], tmp_path)
        again = services.call([*CHIMBUKO, "runs", "list"], tmp_path)
    found = job.found()
    print(f"grace {grace_s} s, cut off {is_cut_off}: ended after {took_s:.1f} s", truth, stored, found)
    print(listed.stdout, listed.stderr, delivered.stderr, again.stderr, job.said)
    assert INTERRUPTED in listed.stdout.splitlines()[1].split(), listed.stdout
    if is_cut_off:
        assert "chimbuko deliver" in listed.stderr and delivered.returncode == 0
        assert found["node2"] > stored["node2"]
    assert " do: " not in again.stderr
    if took_s < grace_s:
        assert all(found[node] >= truth[node] for node in truth)
        assert list(job.run.path.glob("rescued")) == []
