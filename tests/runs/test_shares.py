"""Shares of a recorded trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chimbuko.runs.directory import RunDirectory
from chimbuko.runs.shares import Share, are_all_read, claim_share, offer_shares


def test_each_agent_gets_a_share_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    offer_shares(run, 12)
    agents = [f"agent-node{number}" for number in range(12)]
    with ThreadPoolExecutor(12) as several:
        shares = list(several.map(lambda agent: claim_share(run, agent), agents))
    assert {one.index for one in shares if one} == set(range(12))
    assert {one.count for one in shares if one} == {12}
    assert claim_share(run, "agent-late") is None
    # Who comes back has what it had, whatever else there was.
    assert [claim_share(run, agent) for agent in agents] == shares


def test_all_is_read_when_those_who_have_shares_are_done(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    offer_shares(run, 2)
    assert claim_share(run, "agent-a") == Share(0, 2)
    # One that found nothing to do is done as well.
    assert not are_all_read(run, ["agent-a", "agent-late"])
    assert claim_share(run, "agent-b") == Share(1, 2)
    assert not are_all_read(run, ["agent-a", "agent-late"])
    assert are_all_read(run, ["agent-b", "agent-late", "agent-a"])
