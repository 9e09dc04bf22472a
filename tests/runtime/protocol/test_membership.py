"""Agents that say they are there, and services that ask them to end the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.membership import (
    SILENT_AFTER_S,
    Membership,
    Presence,
    ask_to_end,
    report_in_s,
    silent_agents,
)
from chimbuko.runtime.protocol.runbroker import RunBroker


@pytest.fixture
def client(broker: PrivateBroker) -> Iterator[RunBroker]:
    one = RunBroker.connect(broker.url, "run")
    yield one
    one.client.close()


def test_a_run_is_over_when_all_agents_are_done(client: RunBroker) -> None:
    membership, first, second = Membership(client), Presence(client, "agent-a"), Presence(client, "agent-b")
    assert membership.look() == []
    assert not first.say(False, []) and not second.say(False, [])
    assert sorted(membership.look()) == ["agent-a is at work", "agent-b is at work"]
    assert membership.look() == []
    assert ask_to_end(client)
    assert first.say(False, []) and not membership.is_over
    assert first.say(True, ["a reader ended early"])
    assert membership.look() == ["agent-a is done"]
    assert membership.is_ending and not membership.is_over
    second.say(True, [])
    membership.look()
    assert membership.is_over and membership.problems == ["a reader ended early"]


def test_thousands_of_agents_report_less_often_and_none_counts_as_silent(client: RunBroker) -> None:
    assert report_in_s(1) == report_in_s(1_000) == 0.5
    for agents in (9_000, 100_000):
        assert agents / report_in_s(agents) <= max(4_000, 3 * agents / SILENT_AFTER_S) + 1
        assert 3 * report_in_s(agents) <= SILENT_AFTER_S
    client.client.hset(client.keys.roll_call, mapping={f"agent-{one}": b"" for one in range(8_999)})
    presence = Presence(client, "agent-a")
    presence.say(False, [])
    assert presence.report_in_s == pytest.approx(2.25)


def test_a_run_without_agents_is_over_when_it_is_to_end(client: RunBroker) -> None:
    membership = Membership(client)
    membership.look()
    assert not membership.is_over
    membership.is_ending = True
    membership.look()
    assert membership.is_over
    assert Presence(client, "late").say(False, [])


def test_an_agent_of_which_nothing_is_heard_is_not_waited_for(
    client: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership, agent = Membership(client), Presence(client, "agent-a")
    agent.say(False, [])
    membership.is_ending = True
    membership.look()
    assert not membership.is_over
    monkeypatch.setattr("chimbuko.runtime.protocol.membership.LOST_AFTER_S", 0.0)
    assert membership.is_over
    (line,) = membership.problems
    assert line.startswith("agent-a did not come to an end") and "'chimbuko runs list'" in line


def test_a_silent_agent_of_a_run_that_may_be_killed_soon_is_hardly_waited_for(
    client: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership, agent = Membership(client), Presence(client, "agent-a")
    agent.say(False, [])
    membership.is_ending = True
    membership.look()
    monkeypatch.setattr("chimbuko.runtime.protocol.membership.SILENT_AFTER_S", 0.0)
    assert not membership.is_over
    membership.is_urgent = True
    assert membership.is_over


def test_a_broker_that_forgets_everything_learns_it_again(broker: PrivateBroker, client: RunBroker) -> None:
    membership, agent = Membership(client), Presence(client, "agent-a")
    membership.look()
    agent.say(False, [])
    membership.look()
    assert ask_to_end(client)
    membership.look()
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    broker.start()
    renewed = RunBroker.connect(broker.url, "run")
    assert membership.look() == [] and not membership.is_over
    assert Presence(renewed, "agent-a").say(True, [])
    assert membership.look() == ["agent-a is done"]
    assert membership.is_over
    renewed.client.close()


def test_nobody_listens_where_no_services_wait_for_agents(client: RunBroker) -> None:
    assert not ask_to_end(client)


def test_an_agent_that_falls_silent_is_reported_and_so_is_its_return(
    client: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership, agent = Membership(client), Presence(client, "agent-a")
    agent.say(False, [])
    assert membership.look() == ["agent-a is at work"]
    monkeypatch.setattr("chimbuko.runtime.protocol.membership.SILENT_AFTER_S", 0.0)
    (line,) = membership.look()
    assert line.startswith("nothing is heard of agent-a for")
    assert membership.look() == []
    assert list(silent_agents(client)) == ["agent-a"]
    monkeypatch.undo()
    agent.say(False, [])
    (line,) = membership.look()
    assert line.startswith("agent-a is heard again, after 0 s")
    assert membership.look() == [] and silent_agents(client) == {}


def test_agents_that_are_expected_are_waited_for(client: RunBroker) -> None:
    membership = Membership(client, ["agent-a"])
    membership.is_ending = True
    assert membership.look() == [] and not membership.is_over
    Presence(client, "agent-a").say(True, [])
    assert membership.look() == ["agent-a is done"] and membership.is_over
