"""Of the steps of 10,000 ranks only those of the ones that are asked for are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.coarserlevels import LEVELS
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.stepwriter import _of_level_below
from tests.viz.made_run import make_run


@pytest.mark.parametrize("level", LEVELS)
def test_only_steps_of_the_rank_are_read(tmp_path: Path, level: int) -> None:
    number = "bucket" if level > 1 else "step"
    statement = f"{_of_level_below(level)} AND run = 1 AND program = 0 AND rank = 5 AND {number} >= 8"
    engine = open_for_writing(f"sqlite:///{tmp_path / 'store.sqlite'}")
    try:
        with engine.begin() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
    finally:
        close(engine)
    assert any(f"rank=? AND {number}>?" in row[3] for row in plan), plan


def test_steps_of_some_ranks_are_found_by_their_key(tmp_path: Path) -> None:
    made = make_run(tmp_path / "made", stored_steps=5)
    asked: list[tuple[str, Any]] = []
    engine = open_for_reading(made.directory.used_store_url(made.directory.read_info()))
    with Provenance(engine) as provenance:

        @sqlalchemy.event.listens_for(engine, "before_cursor_execute")
        def note(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
            asked.append((statement, parameters))

        found = provenance.steps.counts([(0, 1), (0, 3)], 1, 3)
        assert [(step.rank, step.step) for step in found] == [(r, s) for r in (1, 3) for s in (1, 2, 3)]
        provenance.steps.gaps([(0, 1), (0, 3)])
        plans = []
        with engine.connect() as connection:
            for statement, parameters in asked.copy():
                plans.append(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all())
    looks = [row[3] for plan in plans for row in plan if row[3].split()[1:2] == ["steps"]]
    assert len(looks) == 2
    assert all("program=? AND rank=?" in look for look in looks), looks
