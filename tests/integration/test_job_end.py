"""A job that its scheduler ends: SIGTERM for all processes of all nodes at once, SIGKILL some time later."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from tests.integration.conftest import Start, descendants
from tests.integration.jobs import DELAY_S, LAST_S, PROGRAM, begin
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, cluster

WORKS_S = 6.0


@pytest.mark.thorough
@pytest.mark.parametrize("grace_s", [5, 30, 120])
# A node without its link would not reach the run's folder either.
@pytest.mark.parametrize(("is_cut_off", "is_shared"), [(False, False), (False, True), (True, False)])
def test_what_was_found_in_a_job_that_is_ended_is_not_lost(
    tmp_path: Path, grace_s: int, is_cut_off: bool, is_shared: bool
) -> None:
    """Also where the way from a node to the services is cut, as that is often why a job is ended."""
    with ExitStack() as stack:
        try:
            nodes = stack.enter_context(cluster(3, tmp_path, tmp_path / "shared" if is_shared else None))
        except NotPermitted as reason:
            pytest.skip(f"no nodes can be made here: {reason}")
        with ExitStack() as cut:
            job = begin(nodes, tmp_path, is_shared)
            learned_s = job.wait_until_learned()
            if is_cut_off:
                cut.enter_context(nodes.network.cable_pulled(2))
            time.sleep(WORKS_S)
            ended_s = time.time()
            took_s = job.end(grace_s)
        truth, stored = job.delays(ended_s - LAST_S, learned_s), job.found(learned_s - DELAY_S)
        _, counted_first = job.flagged()
        services, elsewhere = nodes.nodes[0], nodes.nodes[1]
        with services, elsewhere:
            listed = services.call([*CHIMBUKO, "runs", "list"], job.runs)
            delivered = elsewhere.call([*CHIMBUKO, "runs", "deliver", "job"], job.runs)
            again = services.call([*CHIMBUKO, "runs", "list"], job.runs)
            once_more = elsewhere.call([*CHIMBUKO, "runs", "deliver", "job"], job.runs)
        found = job.found(learned_s - DELAY_S)
        recorded, counted = job.flagged()
    print(f"grace {grace_s} s, cut off {is_cut_off}, shared {is_shared}: ended after {took_s:.1f} s")
    print(f"delays {truth}, stored {stored}, delivered {found}")
    print(f"flagged {recorded.total()}, counted {counted_first.total()}, then {counted.total()}")
    print(listed.stdout, listed.stderr, delivered.stderr, again.stderr, job.said)
    assert INTERRUPTED in listed.stdout.splitlines()[1].split()
    if is_cut_off:
        assert "chimbuko runs deliver" in listed.stderr and delivered.returncode == 0
        assert found["node2"] > stored["node2"]
        assert counted.total() > counted_first.total()
        assert "nothing is left to be stored" in once_more.stderr
    if took_s < grace_s:
        assert counted == recorded
        assert " do: " not in again.stderr
        assert all(found[node] >= truth[node] for node in truth)
        assert not (job.run.path / "rescued").exists()


def test_a_job_on_one_node_ends_in_order(start: Start, tmp_path: Path) -> None:
    program, truth = tmp_path / "program.py", tmp_path / "truth"
    program.write_text(PROGRAM)
    traced = [*CHIMBUKO, "trace", program, truth, tmp_path / "end"]
    # The default detector takes as long a tail for ordinary as that of sleeps is on a busy machine: of five
    # delays none was flagged once. That a call in 300 is this far from the mean, no load changes.
    run = start("--no-dashboard", "--detector", "sstd", "--threshold", "3", "--", *traced)
    run.wait_until(lambda: truth.exists() and len(truth.read_text().splitlines()) >= 10)
    ended_s = time.time()
    for pid in (run.process.pid, *descendants(run.process.pid)):
        # Some live shortly.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM, run.output
    assert run.info.state == INTERRUPTED and "started again" not in run.output
    delays = [at_s for at_s in map(float, truth.read_text().split()) if at_s < ended_s - LAST_S]
    (calls,) = (one.calls for (_, path), one in run.paths.items() if "relax" in path[-1])
    assert calls >= 300 * (len(delays) + 1) > 300
    assert len(run.anomalies) == sum(stream.anomalies for stream in run.health) > 0
