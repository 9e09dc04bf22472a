"""Runs whose agent samples its node: a program that does nothing wrong, with the samples and without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.nodelist import NodeSamples
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Start
from tests.thorough import first

PROGRAM = """
import threading

def work(rounds):
    total = 0
    for n in range(rounds):
        total += n * n
    return total

def main():
    for call in range(300):
        work(3_000_000 if call in (150, 250) else 60_000)

worker = threading.Thread(target=main)
worker.start()
worker.join()
"""
"""It only computes, twice for longer: its node has no part in that."""
OF_OTHERS = {"waited for core", "migration"}
"""What other load on this machine may really do to it meanwhile."""


@pytest.mark.thorough
@pytest.mark.parametrize("is_sampled", first(1, [True, False], ["sampled", "not sampled"]))
def test_a_program_that_only_computes_has_no_cause_in_its_node(
    start: Start, tmp_path: Path, is_sampled: bool
) -> None:
    program = tmp_path / "work.py"
    program.write_text(PROGRAM)
    switch = [] if is_sampled else ["--no-node-samples"]
    traced = [sys.executable, "-m", "chimbuko", "trace", program]
    run = start("--no-dashboard", "--period", "0.5", *switch, "--", *traced)
    assert run.end() == 0, run.output
    assert "not sampled any more" not in run.output
    assert run.info.config.node_samples == is_sampled
    with open_run(RunDirectory(run.folder)) as provenance:
        sums = list(NodeSamples(provenance.reader).batches(0, 1 << 62, is_sum=True))
        around = list(NodeSamples(provenance.reader).batches(0, 1 << 62))
        incidents = Incidents(provenance.reader)
        found = [
            incidents.one(one.id).incident for one in incidents.page(limit=100, with_short=True).incidents
        ]
    assert not {one.kind for one in found} & (IN_NODE - OF_OTHERS if is_sampled else IN_NODE)
    assert len([one for one in found if one.function.startswith("work")]) >= 2, "its two longer calls"
    if is_sampled:
        # Its thread has a number of its own in the trace, and another one in the kernel.
        (worker,) = {name.tid for one in around for name in one.names if name.thread == 1}
        assert any(worker in one.look_rows()["tid"] for one in around)
        assert {name.rank for one in sums for name in one.names} == {0}
    else:
        assert not sums and not around
