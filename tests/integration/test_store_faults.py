"""A live run whose store fails: the program does not notice, the user is told, all is stored afterwards."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from chimbuko.ad.link import MOST_IN_FLIGHT_BYTES
from chimbuko.broker import connect
from chimbuko.messages import RECORDS
from chimbuko.provenance.queries import Provenance, open_run
from chimbuko.provenance.store import open_for_reading
from chimbuko.rundir import RunDirectory
from tests.integration.conftest import STORE, Run, Start
from tests.integration.marked import RANKS, write_marked

STEPS = 60
PACE = 2
"""Of the program, which then takes 3 s."""
LOCKED_S = 2.0


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's recorded streams."""
    folder = tmp_path_factory.mktemp("marked")
    write_marked(folder, STEPS)
    return folder


def live_run(start: Start, marked: Path) -> Run:
    run = start("--replay", marked / "*.bp", "--pace", str(PACE), "--period", "0.2", "--no-dashboard")
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    return run


def problems(run: Run) -> list[str]:
    return [line for line in run.lines if line.startswith("Problem: ")]


def steps_of(provenance: Provenance) -> Counter[tuple[int, int]]:
    return Counter((step.rank, step.step) for step in provenance.step_counts())


ALL_STEPS = {(rank, step) for rank in range(RANKS) for step in range(STEPS)}


def test_a_locked_database_and_a_killed_writer(start: Start, marked: Path, moments: random.Random) -> None:
    run = live_run(start, marked)
    directory = RunDirectory(run.folder)
    holder = sqlite3.connect(directory.store_path, isolation_level=None, timeout=30)
    holder.execute("BEGIN IMMEDIATE")
    # It may be in the middle of a transaction, and its successor finds the database locked.
    os.kill(run.service(STORE), 9)
    run.wait_for_line("ended early")
    time.sleep(moments.uniform(0.5, LOCKED_S))
    with connect(directory.read_broker_url()) as client:
        run.wait_for_line("held by another program")
        assert client.memory_usage(RECORDS) < 2 * MOST_IN_FLIGHT_BYTES
    holder.execute("ROLLBACK")
    holder.close()
    assert run.end() == 0, run.output
    with open_run(directory) as provenance:
        assert steps_of(provenance) == Counter(ALL_STEPS)
        assert provenance.dropped() == []
        by_rank = Counter[int]()
        for step in provenance.step_counts():
            by_rank[step.rank] += step.anomalies
    assert Counter(call.rank for call in run.anomalies) == +by_rank
    locked, again = (line for line in problems(run) if "ended early" not in line)
    assert "held by another program" in locked
    assert "records are stored again" in again


def test_a_damaged_database_is_put_aside(start: Start, marked: Path, tmp_path: Path) -> None:
    run = live_run(start, marked)
    path = RunDirectory(run.folder).store_path
    os.kill(run.service(STORE), 19)
    copy = tmp_path / "copy.sqlite"
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    for damaged in (path, path.with_name(path.name + "-wal")):
        damaged.write_bytes(os.urandom(damaged.stat().st_size))
    # It has the pages in its memory that it needs; whoever takes its place has not.
    os.kill(run.service(STORE), 9)
    assert run.end() == 0, run.output
    assert path.with_name(path.name + ".damaged-1").exists()
    engine = open_for_reading(f"sqlite:///{copy}")
    with open_run(RunDirectory(run.folder)) as provenance:
        after, before = steps_of(provenance), steps_of(Provenance(engine, run.info.id))
    engine.dispose()
    assert after.keys() | before.keys() == ALL_STEPS
    assert set(after.values()) == {1}
    (told,) = (line for line in problems(run) if "ended early" not in line)
    assert "put aside" in told
