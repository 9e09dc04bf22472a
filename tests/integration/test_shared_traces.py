"""A recorded trace that agents of several nodes share gives what one agent finds in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Command, Outcome


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
