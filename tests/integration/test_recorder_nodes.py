"""An MPI program in C on several nodes under the recorder: its own MPI, with its messages between them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.instrument.recorder.mpi import WHEEL
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, cluster
from tests.patience import PATIENCE_S
from tests.places import EXAMPLES

pytestmark = pytest.mark.thorough

INTO = """#!/bin/sh
# In place of ssh: options, the node's address, and a command.
while [ "${1#-}" != "$1" ]; do shift; done
"""


def test_ranks_on_two_nodes_are_recorded(tmp_path: Path) -> None:
    program = WHEEL.build(EXAMPLES / "heat_mpi.c", tmp_path / "heat_mpi", "mpicc", "-finstrument-functions")
    run = RunDirectory(tmp_path / "run")
    try:
        with cluster(2, tmp_path) as two:
            first = two.nodes[0]
            serve = [*CHIMBUKO, "serve", run.path, "--bind", first.address, "--no-dashboard"]
            services = first.start(serve, tmp_path / "serve.log")
            agents = [
                node.start([*CHIMBUKO, "agent", run.path], tmp_path / f"agent-{node.name}.log")
                for node in two.nodes
            ]
            into = tmp_path / "into"
            cases = "".join(
                f'{node.address}) exec nsenter {" ".join(node.entry)} sh -c "$*" ;;\n' for node in two.nodes
            )
            into.write_text(f'{INTO}host=$1; shift\ncase "$host" in\n{cases}esac\n')
            into.chmod(0o755)
            (mpirun, *_) = WHEEL.launch(4)
            hosts = ",".join(node.address for node in two.nodes)
            # The launcher is on a place of its own: what it takes for its own node it would not enter.
            launch = ["-launcher", "ssh", "-launcher-exec", str(into), "-localhost", two.network.address(2)]
            # The nodes are one machine, whose memory they do not share.
            launch += ["-hosts", hosts, "-ppn", "2", "-genv", "UCX_TLS", "tcp,self", "-n", "4"]
            while not (run.path / "settings" / "node").exists():
                assert services.poll() is None, (tmp_path / "serve.log").read_text()
            words = [*launch, run.path / "settings" / "node", *CHIMBUKO, "trace", program, "--seconds", "4"]
            done = subprocess.run(
                ["ip", "netns", "exec", two.network.name(2), mpirun, *map(str, words)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert "4 ranks, 400 iterations" in done.stdout, done.stdout + done.stderr
            assert first.call([*CHIMBUKO, "stop", str(run.path)], tmp_path).returncode == 0
            assert [one.wait(PATIENCE_S) for one in (*agents, services)] == [0, 0, 0]
    except NotPermitted as reason:
        pytest.skip(f"no nodes can be made here: {reason}")
    with open_run(run) as provenance:
        found = {(stream.rank, stream.node): stream for stream in provenance.health()}
    assert sorted(found) == [(0, "node0"), (1, "node0"), (2, "node1"), (3, "node1")]
    for stream in found.values():
        assert (stream.state, stream.gap_steps, stream.losses) == ("ended", 0, {})
