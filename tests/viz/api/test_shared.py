"""Answers that many ask for at the same time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from chimbuko.provenance.query.run import open_run, settled_state
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.blueprint import LASTS_S, MOST_KEPT, SharedAnswers
from chimbuko.viz.http.app import create_app
from chimbuko.viz.live.feed import Feed
from tests.viz.api.conftest import TOKEN, Api
from tests.viz.made_run import MadeRun


def test_what_many_ask_for_at_once_is_made_once() -> None:
    shared = SharedAnswers(lasts_s=3600)
    made: list[int] = []
    everybody_asks = threading.Barrier(8)

    def make() -> bytes:
        made.append(1)
        return b"answer"

    def ask() -> bytes:
        everybody_asks.wait(20)
        return shared.get("question", make)

    with ThreadPoolExecutor(8) as browsers:
        answers = [one.result(20) for one in [browsers.submit(ask) for _ in range(8)]]
    assert answers == [b"answer"] * 8
    assert made == [1]
    assert shared.get("other", lambda: b"another") == b"another"


def test_an_answer_is_made_anew_when_it_is_old() -> None:
    shared = SharedAnswers(lasts_s=0)
    assert [shared.get("question", lambda at=at: b"%d" % at) for at in range(2)] == [b"0", b"1"]  # type: ignore[misc]


def test_what_fails_is_raised_and_not_kept() -> None:
    shared = SharedAnswers(lasts_s=3600)

    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shared.get("question", fail)
    assert shared.get("question", lambda: b"now") == b"now"


def test_an_answer_is_kept_while_its_state_stays_the_same() -> None:
    shared = SharedAnswers(lasts_s=0)
    made = 0

    def get(question: str, state: Hashable) -> bytes:
        def make() -> bytes:
            nonlocal made
            made += 1
            return b"%d" % made

        return shared.get(question, make, state)

    assert [get("a", 1), get("a", 1), get("a", 2), get("a", None), get("a", None)] == [
        b"1",
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    for number in range(MOST_KEPT + 1):
        get(f"b{number}", 1)
    before = made
    get(f"b{MOST_KEPT}", 1)
    assert made == before
    get("b0", 1)
    assert made == before + 1


@pytest.fixture
def copied(finished: MadeRun, tmp_path: Path) -> RunDirectory:
    """Copy of a run that has ended long ago."""
    run = RunDirectory(tmp_path / "copied")
    shutil.copytree(finished.directory.path, run.path)
    os.utime(run.store_path, ns=(10**18, 10**18))
    return run


def change(run: RunDirectory, statement: str, changed_ns: int) -> None:
    """Change its store, as if at some time."""
    store = sqlite3.connect(run.store_path)
    with store:
        store.execute(statement)
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    os.utime(run.store_path, ns=(changed_ns, changed_ns))


def test_the_state_of_a_store_changes_with_it(copied: RunDirectory) -> None:
    state = settled_state(copied)
    assert state is not None
    assert settled_state(copied) == state
    change(copied, "UPDATE runs SET host = 'other'", time.time_ns())
    assert settled_state(copied) is None
    change(copied, "UPDATE runs SET host = 'third'", 10**18 + 1)
    assert settled_state(copied) not in (None, state)
    copied.write_info(replace(copied.read_info(), state="running"))
    assert settled_state(copied) is None


def test_points_are_read_anew_once_the_store_has_changed(copied: RunDirectory) -> None:
    with open_run(copied) as provenance:
        feed = Feed(copied, provenance, None)
        app = create_app(provenance, copied.read_info(), feed, TOKEN, static=Path("no page"))
        api = Api(app.test_client())
        first = api.ask("points").data
        # With size and time as before nobody can know of this change.
        change(copied, "UPDATE calls SET thread = 1 - thread WHERE thread IN (0, 1)", 10**18)
        time.sleep(LASTS_S)
        assert api.ask("points").data == first
        change(copied, "UPDATE runs SET host = 'other'", 10**18 + 1)
        assert api.ask("points").data != first
