"""A job on whole nodes: services, agents, and programs that are slow now and then and know how often."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from examples.findings import all_anomalies
from tests.integration.nodes import CHIMBUKO, Cluster, Node, wait_until_ended
from tests.patience import PATIENCE_S

RANKS_PER_NODE = 2
DELAY_S = 0.2
LAST_S = 3.0
"""What happened so shortly before the end of a traced Python program that is killed may not be written: at
most a second, and up to two were seen on two cores with ten processes that wanted them."""
LEARNED = 8
"""Delays of a node after which it is known, also on a busy machine, that they are none of what is usual."""
PROGRAM = f"""
import os, sys, time

def relax(seconds):
    time.sleep(seconds)

truth, end = sys.argv[1:]
with open(truth, "w", buffering=1) as truth:
    for number in range(1, 1_000_000):
        is_slow = number % 300 == 0
        relax({DELAY_S} if is_slow else 0.001)
        if is_slow and number > 300:
            print(time.time(), file=truth)
        if is_slow and os.path.exists(end):
            break
"""


@dataclass
class Job:
    """A run on all nodes of a cluster, its services on the first."""

    cluster: Cluster
    folder: Path
    """For logs, and what its programs know of themselves."""
    services: subprocess.Popen[bytes]
    runs: Path
    """Folder with ``chimbuko-runs`` in it, as nodes see it,"""
    runs_here: Path
    """and as it is seen here."""
    agents: list[subprocess.Popen[bytes]] = field(default_factory=list)
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run(self) -> RunDirectory:
        """Its folder as it is seen here."""
        return RunDirectory(self.runs_here / "chimbuko-runs" / "job")

    @property
    def place(self) -> Path:
        """Its folder as nodes see it."""
        return self.runs / "chimbuko-runs" / "job"

    def delays(self, before_s: float, after_s: float = 0.0) -> dict[str, int]:
        """How many there were before a moment, and after another, by node."""
        return {
            node.name: sum(after_s < at_s < before_s for at_s in self._truth(node))
            for node in self.cluster.nodes
        }

    def _truth(self, node: Node) -> list[float]:
        paths = self.folder.glob(f"truth-{node.name}-*")
        return [float(line) for path in paths for line in path.read_text().split()]

    def found(self, after_s: float = 0.0) -> dict[str, int]:
        """How many are in the store, by node."""
        counts = dict.fromkeys((node.name for node in self.cluster.nodes), 0)
        with open_run(self.run) as provenance:
            for call in all_anomalies(provenance):
                is_delay = "relax" in call.function and call.inclusive_us > 0.8e6 * DELAY_S
                counts[call.node] += is_delay and call.exit_us > 1e6 * after_s
        return counts

    def flagged(self) -> tuple[Counter[str], Counter[str]]:
        """Abnormal calls by function: those on record, and those that are counted in the statistics."""
        with open_run(self.run) as provenance:
            recorded = Counter(call.function for call in all_anomalies(provenance))
            functions = provenance.function_statistics()
        return recorded, +Counter({function.name: function.anomalies for function in functions})

    def wait_until_learned(self) -> float:
        """Wait until delays are known to be none of what is usual; since when they are, as ``time.time``."""
        self.wait_for(lambda: min(self.delays(time.time()).values()) >= LEARNED)
        return time.time()

    def end(self, grace_s: float) -> float:
        """End it as a scheduler does; seconds in which all have ended by themselves, at most ``grace_s``."""
        everybody = [self.services, *self.agents, *self.programs]
        self.cluster.ask_to_end()
        took_s = wait_until_ended(everybody, grace_s)
        for node in self.cluster.nodes:
            node.kill()
        return took_s

    def end_programs(self) -> None:
        """They come to their own end."""
        (self.folder / "end").touch()
        assert [program.wait(PATIENCE_S) for program in self.programs] == [0] * len(self.programs)

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


def begin(nodes: Cluster, folder: Path, is_shared: bool = False) -> Job:
    """Start all of a job; on a network file system where the cluster has one."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    first = nodes.nodes[0]
    runs, here = (folder / "shared", folder / "exported") if is_shared else (folder, folder)
    place = runs / "chimbuko-runs" / "job"
    serve = [*CHIMBUKO, "serve", place, "--bind", first.address, "--no-dashboard"]
    job = Job(nodes, folder, first.start(serve, folder / "serve.log"), runs, here)
    job.wait_for(job.run.broker_path.exists)
    for index, node in enumerate(nodes.nodes):
        job.agents.append(node.start([*CHIMBUKO, "agent", place], folder / f"agent-{node.name}.log"))
        for rank in range(index * RANKS_PER_NODE, (index + 1) * RANKS_PER_NODE):
            truth = folder / f"truth-{node.name}-{rank}"
            words = [place / "settings" / "node", *CHIMBUKO, "trace", program, truth, folder / "end"]
            own = {"CHIMBUKO_RANK": str(rank)}
            job.programs.append(node.start(words, folder / f"rank-{rank}.log", own))
    return job
