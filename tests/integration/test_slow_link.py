"""A node that is far from the services of its run: 100 ms each way, and one packet of fifty is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimbuko.runtime.runs.directory import RunDirectory
from tests.calldata import no_loss
from tests.integration.conftest import Command, Outcome
from tests.integration.namespaces import Network, NotPermitted
from tests.integration.nodeprogram import NodeProgram, read
from tests.thorough import first

DELAY_S, LOSS = 0.1, 0.02
RANKS = 4
SECONDS = 10
PERIOD_S = 1.0
"""Readers over SST come when a step or two are written; the newest four are kept for them."""
NODE = "node1"


@pytest.mark.thorough
@pytest.mark.parametrize("transport", first(1, ["sst", "files"]))
def test_a_program_far_from_the_services_loses_nothing(
    command: Callable[..., Command], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, transport: str
) -> None:
    # Nobody answers ADIOS2's questions about names there.
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    run = RunDirectory(tmp_path / "run")
    try:
        with Network(2) as network, network.slow(1, DELAY_S, LOSS):
            with network.inside(0):
                services = command(
                    *("serve", run.path, "--bind", network.address(0), "--no-dashboard"),
                    *("--transport", transport, "--streams", tmp_path / "streams", "--period", str(PERIOD_S)),
                )
            services.wait_for_line("services are ready")
            with network.inside(1):
                agent = command("agent", run.path, "--node", NODE)
                program = NodeProgram(run, NODE, 0, RANKS, tmp_path, ["sleep", str(SECONDS)])
            assert program.wait() == [0] * RANKS
            with network.inside(0):
                assert command("stop", run.path).end() == 0
            assert agent.end() == 0, agent.output
            assert services.end() == 0, services.output
    except NotPermitted as reason:
        pytest.skip(f"no slow link here: {reason}")
    health = Outcome(run.path).health
    assert read(health) == program.written, agent.output + services.output
    assert [(stream.state, stream.gap_steps, stream.losses) for stream in health] == [
        ("ended", 0, {})
    ] * RANKS
    assert no_loss(services.output)
