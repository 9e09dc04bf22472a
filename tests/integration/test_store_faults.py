"""A live run whose store fails: the program does not notice, the user is told, all is stored afterwards."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from chimbuko.ad.agent.spoolshipper import MOST_IN_FLIGHT_BYTES
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.runtime.protocol.broker import connect
from chimbuko.runtime.protocol.runbroker import RunKeys
from chimbuko.runtime.runs.directory import RunDirectory
from examples.findings import all_anomalies
from tests.integration.conftest import STORE, Run, Start
from tests.integration.marked import RANKS, STEPS
from tests.patience import PATIENCE_S

PACE = 2
"""Of the program, which then takes 5 s."""
LOCKED_S = 1.0
ALL_STEPS = {(rank, step) for rank in range(RANKS) for step in range(STEPS)}


def steps_of(provenance: Provenance) -> Counter[tuple[int, int]]:
    return Counter((step.rank, step.step) for step in provenance.steps.counts())


@pytest.mark.thorough
def test_a_database_is_damaged_and_then_locked_while_its_writer_is_killed(
    start: Start, tmp_path: Path, moments: random.Random, marked: Path
) -> None:
    run = start("--replay", marked / "*.bp", "--pace", str(PACE), "--period", "0.2", "--no-dashboard")
    run.wait_until(lambda: len(run.health_so_far) == RANKS)
    path = RunDirectory(run.folder).store_path
    os.kill(run.service(STORE), signal.SIGSTOP)
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    for damaged in (path, path.with_name(path.name + "-wal")):
        damaged.write_bytes(os.urandom(damaged.stat().st_size))
    # It has the pages in its memory that it needs; its successor has not.
    os.kill(run.service(STORE), signal.SIGKILL)
    run.wait_for_line("put aside")
    holder = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_S)
    holder.execute("BEGIN IMMEDIATE")
    # It may be in the middle of a transaction, and its successor finds the database locked.
    os.kill(run.service(STORE), signal.SIGKILL)
    run.wait_for_line("held by another program")
    time.sleep(moments.uniform(0.0, LOCKED_S))
    with connect(RunDirectory(run.folder).read_broker_url()) as client:
        assert cast(int, client.memory_usage(RunKeys(run.info.id).records) or 0) < 2 * MOST_IN_FLIGHT_BYTES
    holder.execute("ROLLBACK")
    holder.close()
    assert run.end() == 0, run.output
    assert path.with_name(path.name + ".damaged-1").exists()
    assert_all_stored(run, copy)
    problems = [line for line in run.lines if line.startswith("Problem: ") and "ended early" not in line]
    for line, words in zip(problems, ("put aside", "held by another", "stored again"), strict=True):
        assert words in line


def assert_all_stored(run: Run, copy: Path) -> None:
    """Each step is in the copy of what was damaged or in what was begun after it, with all its findings."""
    engine = open_for_reading(f"sqlite:///{copy}")
    before = Provenance(engine, run.info.id)
    with open_run(RunDirectory(run.folder)) as after:
        assert after.dropped() == before.dropped() == []
        assert set(steps_of(after).values()) == set(steps_of(before).values()) == {1}
        assert steps_of(after).keys() | steps_of(before).keys() == ALL_STEPS
        found = {call.id for provenance in (before, after) for call in all_anomalies(provenance)}
        flagged = {
            (step.rank, step.step): step.anomalies
            for provenance in (before, after)
            for step in provenance.steps.counts()
        }
    engine.dispose()
    assert len(found) == sum(flagged.values())
