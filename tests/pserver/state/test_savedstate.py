"""The saved state of a parameter server: who starts anew goes on with it, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.pserver.state.savedstate import read_state, write_state
from chimbuko.pserver.state.serverstate import ServerState
from tests.pserver.state.test_serverstate import health_of, learned_of, make_agent, timers_of


@pytest.fixture
def server() -> ServerState:
    """It has merged what one agent has learned."""
    server = ServerState()
    server.name_programs({0: "heat"})
    agent = make_agent(0)
    agent.learn(0, timers_of(0), learned_of(0, [(1, 100), (1, 300), (3, 50)]), rank=1)
    agent.count([], health_of(1))
    assert server.apply(agent.delta())
    return server


def test_who_reads_what_was_saved_reports_the_same(server: ServerState, tmp_path: Path) -> None:
    write_state(tmp_path / "state", server.save())
    saved = read_state(tmp_path / "state")
    assert saved is not None
    other = ServerState()
    other.restore(saved)
    assert other.report("model") == server.report("model")


def test_where_nothing_was_saved_a_server_begins(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state") is None


def test_a_damaged_state_is_one_line_wherever_it_ends(server: ServerState, tmp_path: Path) -> None:
    write_state(tmp_path / "state", server.save())
    whole = (tmp_path / "state").read_bytes()
    for size in range(0, len(whole), 97):
        (tmp_path / "state").write_bytes(whole[:size])
        with pytest.raises(ServiceError, match=r"state: the saved state cannot be read .*; remove it$"):
            read_state(tmp_path / "state")
