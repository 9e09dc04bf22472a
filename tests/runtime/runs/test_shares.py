"""Shares of a recorded trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.shares import Share, claim_share, note_read, offer_shares, unread_shares


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


def test_all_is_read_when_each_share_was_read_to_its_end(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    offer_shares(run, 2)
    first = claim_share(run, "agent-a")
    assert first == Share(0, 2)
    assert unread_shares(run) == ["agent-a", "nobody took it"]
    note_read(run, "agent-a", first)
    assert unread_shares(run) == ["nobody took it"]
    # Whoever is done with one may take another.
    second = claim_share(run, "agent-a")
    assert second == Share(1, 2)
    note_read(run, "agent-a", second)
    assert unread_shares(run) == [] and claim_share(run, "agent-a") is None


def test_a_run_without_shares_has_none_that_is_unread(tmp_path: Path) -> None:
    assert unread_shares(RunDirectory(tmp_path)) == []
