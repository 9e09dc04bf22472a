"""Levels of steps are summed up from the steps of one rank: of 10,000 others none is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.provenance.stepwriter import LEVELS, _of_level_below
from chimbuko.provenance.store import close, open_for_writing


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
