"""Agents that say they are there, and services that tell them when the run is to end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from chimbuko.protocol import membership
from chimbuko.protocol.broker import PrivateBroker, connect
from chimbuko.protocol.membership import Presence, RollCall, ask_to_end


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PrivateBroker]:
    with PrivateBroker(tmp_path / "broker.log") as one:
        yield one


@pytest.fixture
def client(broker: PrivateBroker) -> Iterator[redis.Redis]:
    one = connect(broker.url)
    yield one
    one.close()


def test_a_run_is_over_when_all_agents_are_done(client: redis.Redis) -> None:
    roll_call, first, second = RollCall(client), Presence(client, "agent-a"), Presence(client, "agent-b")
    assert roll_call.look() == []
    assert not first.say(False, []) and not second.say(False, [])
    assert sorted(roll_call.look()) == ["agent-a is at work", "agent-b is at work"]
    assert roll_call.look() == []
    assert ask_to_end(client)
    assert first.say(False, []) and not roll_call.is_over
    assert first.say(True, ["a reader ended early"])
    assert roll_call.look() == ["agent-a is done"]
    assert roll_call.is_ending and not roll_call.is_over
    second.say(True, [])
    roll_call.look()
    assert roll_call.is_over and roll_call.problems == ["a reader ended early"]


def test_a_run_without_agents_is_over_when_it_is_to_end(client: redis.Redis) -> None:
    roll_call = RollCall(client)
    roll_call.look()
    assert not roll_call.is_over
    roll_call.is_ending = True
    roll_call.look()
    assert roll_call.is_over
    assert Presence(client, "late").say(False, [])


def test_an_agent_of_which_nothing_is_heard_is_not_waited_for(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_call, agent = RollCall(client), Presence(client, "agent-a")
    agent.say(False, [])
    roll_call.is_ending = True
    roll_call.look()
    assert not roll_call.is_over
    monkeypatch.setattr(membership, "LOST_AFTER_S", 0.0)
    assert roll_call.is_over
    assert roll_call.problems == ["agent-a did not come to an end; nothing is heard of it"]


def test_a_broker_that_forgets_everything_learns_it_again(broker: PrivateBroker, client: redis.Redis) -> None:
    roll_call, agent = RollCall(client), Presence(client, "agent-a")
    roll_call.look()
    agent.say(False, [])
    roll_call.look()
    assert ask_to_end(client)
    roll_call.look()
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    broker.start()
    renewed = connect(broker.url)
    assert roll_call.look() == [] and not roll_call.is_over
    assert Presence(renewed, "agent-a").say(True, [])
    assert roll_call.look() == ["agent-a is done"]
    assert roll_call.is_over
    renewed.close()


def test_nobody_listens_where_no_services_wait_for_agents(client: redis.Redis) -> None:
    assert not ask_to_end(client)
