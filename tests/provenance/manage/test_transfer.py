"""Whole runs are copied, renamed and removed, on and between both kinds of store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from chimbuko.core.errors import ChimbukoError, StoreError
from chimbuko.provenance.manage import transfer
from chimbuko.provenance.manage.transfer import (
    TABLES_OF_RUNS,
    AlreadyStored,
    copy_run,
    remove_run,
    rename_run,
)
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import RUNS
from chimbuko.provenance.write.writer import Writer
from tests.provenance.whole_runs import answers, limited_files
from tests.sample_records import make_batch, make_record
from tests.sample_records import make_run as make_info
from tests.viz.made_run import MadeRun, make_run

SMALL = 7
"""So few rows at once that tables are copied in several pieces."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_run(tmp_path_factory.mktemp("made") / "run", stored_steps=8)


@pytest.fixture
def source(made: MadeRun) -> Iterator[Engine]:
    engine = open_for_writing(made.directory.store_url)
    yield engine
    engine.dispose()


@pytest.fixture(params=["store_url", "postgresql_url"])
def target(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A store, on each kind of database in turn, with another run in it."""
    engine = open_for_writing(request.getfixturevalue(request.param))
    writer = Writer(engine, "other")
    writer.write_run(make_info("other"))
    writer.write([make_batch(records=[make_record()])])
    yield engine
    engine.dispose()


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def contents(engine: Engine, run_id: str) -> dict[str, object]:
    """All that can be asked of a run."""
    with Provenance(open_for_reading(url_of(engine)), run_id) as provenance:
        return {"run": provenance.run()} | answers(provenance)


def rows(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        tables = (RUNS, *TABLES_OF_RUNS)
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }


def test_a_copy_answers_every_question_alike(
    made: MadeRun, source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "AT_ONCE", SMALL)
    run_id = made.directory.read_info().id
    other = contents(target, "other")
    before = rows(target)
    copied = copy_run(source, run_id, target)
    assert copied == sum(rows(target).values()) - sum(before.values()) - 1
    assert contents(target, run_id) == contents(source, run_id)
    assert contents(target, "other") == other


@pytest.mark.parametrize("target", ["postgresql_url"], indirect=True)
def test_a_copy_can_be_copied_back(made: MadeRun, source: Engine, target: Engine, tmp_path: Path) -> None:
    run_id = made.directory.read_info().id
    copy_run(source, run_id, target)
    back = open_for_writing(f"sqlite:///{tmp_path / 'back.sqlite'}")
    copy_run(target, run_id, back)
    assert contents(back, run_id) == contents(source, run_id)
    assert rows(back) == rows(source)
    back.dispose()


@pytest.mark.parametrize("target", ["postgresql_url"], indirect=True)
def test_a_run_is_copied_once(made: MadeRun, source: Engine, target: Engine) -> None:
    run_id = made.directory.read_info().id
    copy_run(source, run_id, target)
    before = rows(target)
    with pytest.raises(AlreadyStored, match=f"holds the run {run_id} already, under the name 'run'"):
        copy_run(source, run_id, target)
    assert rows(target) == before


@pytest.mark.parametrize("target", ["store_url"], indirect=True)
def test_what_cannot_be_copied_leaves_nothing(source: Engine, target: Engine) -> None:
    before = rows(target)
    with pytest.raises(StoreError, match="holds no run 'never'"):
        copy_run(source, "never", target)
    assert rows(target) == before


def test_a_disk_that_takes_no_more_leaves_the_target_as_it_was(
    made: MadeRun, source: Engine, store_url: str
) -> None:
    target = open_for_writing(store_url)
    with limited_files(100_000), pytest.raises(StoreError, match=r"provenance\.sqlite: "):
        copy_run(source, made.directory.read_info().id, target)
    assert set(rows(target).values()) == {0}
    copy_run(source, made.directory.read_info().id, target)
    assert rows(target) == rows(source)
    target.dispose()


@pytest.mark.parametrize("target", ["store_url"], indirect=True)
def test_a_renamed_run_is_the_same_otherwise(made: MadeRun, source: Engine, target: Engine) -> None:
    run_id = made.directory.read_info().id
    copy_run(source, run_id, target)
    rename_run(target, run_id, "again")
    assert Provenance(target, run_id).run().name == "again"
    assert Provenance(target, "other").run().name == "heat"
    with pytest.raises(StoreError, match="holds no run 'never'"):
        rename_run(target, "never", "again")


def test_a_removed_run_leaves_the_others(made: MadeRun, source: Engine, target: Engine) -> None:
    run_id = made.directory.read_info().id
    before, other = rows(target), contents(target, "other")
    copy_run(source, run_id, target)
    assert remove_run(target, run_id)
    assert rows(target) == before
    assert contents(target, "other") == other
    assert not remove_run(target, run_id)


def test_a_locked_store_is_said_to_be_locked(
    made: MadeRun, source: Engine, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    target = open_for_writing(store_url)
    with sqlite3.connect(tmp_path / "provenance.sqlite", isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(ChimbukoError, match="held by another program"):
            copy_run(source, made.directory.read_info().id, target)
    holder.close()
    target.dispose()
