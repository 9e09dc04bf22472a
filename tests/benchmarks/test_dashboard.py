"""What the dashboard's benchmarks are made of: a history in bulk that is the writer's, ranks that go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, select

from benchmarks.dashboard.history import RUN_NUMBER, MadeHistory
from benchmarks.dashboard.publisher import TICKS, Application
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.tables import STEP_HISTOGRAMS, STEP_LEVELS, STEPS
from chimbuko.provenance.write.stepwriter import rebuild
from chimbuko.runtime.runs.directory import RunDirectory

SMALL = MadeHistory(ranks=5, steps=131, anomalies=100)


@pytest.fixture
def made(tmp_path: Path) -> RunDirectory:
    return SMALL.make(tmp_path / "made", is_running=True)


@pytest.fixture
def store(made: RunDirectory) -> Iterator[Engine]:
    engine = open_for_writing(made.store_url)
    yield engine
    close(engine)


def rows(connection: Connection, table: Table) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, connection.execute(select(*table.c))))


def test_what_is_made_in_bulk_is_what_the_writer_makes(store: Engine) -> None:
    with store.begin() as connection:
        made = [rows(connection, table) for table in (STEP_LEVELS, STEP_HISTOGRAMS)]
        rebuild(connection, RUN_NUMBER)
        assert made == [rows(connection, table) for table in (STEP_LEVELS, STEP_HISTOGRAMS)]
        steps = rows(connection, STEPS)
        assert len(steps) == SMALL.ranks * SMALL.steps
        assert {step[7] for step in steps} >= {0, 1}


def test_calls_streams_and_functions_agree_with_the_steps(made: RunDirectory) -> None:
    with open_run(made) as provenance:
        ranks = {row.rank: row.total for row in provenance.steps.rank_statistics()}
        assert sum(ranks.values()) == SMALL.anomalies
        assert ranks == {stream.rank: stream.anomalies for stream in provenance.health()}
        assert sum(one.anomalies for one in provenance.function_statistics()) == SMALL.anomalies


def test_ranks_go_on_from_what_is_stored(made: RunDirectory) -> None:
    with open_run(made) as provenance:
        stored = provenance.steps.rank_statistics()
    application = Application.of(made)
    for mine, its in zip(application.statistics(), stored, strict=True):
        assert (mine.rank, mine.steps, mine.total, mine.last_step) == (
            its.rank,
            its.steps,
            its.total,
            its.last_step,
        )
        assert (mine.stddev, mine.kurtosis) == pytest.approx((its.stddev, its.kurtosis))
    frames = [application.advance() for _ in range(TICKS)]
    assert [frame.tick for frame, _ in frames] == list(range(1, TICKS + 1))
    # In a second each rank has ended the step after its last.
    assert sorted((step.rank, step.step) for _, steps in frames for step in steps) == [
        (rank, SMALL.steps) for rank in range(SMALL.ranks)
    ]
    last = application.end()
    assert sum(rank.total for rank in last.ranks) == SMALL.anomalies + sum(
        step.anomalies for _, steps in frames for step in steps
    )
