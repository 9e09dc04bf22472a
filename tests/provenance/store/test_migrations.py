"""A store that an earlier release wrote holds the same after it was brought up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import open_as_it_is, open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import FIRST_RELEASE, MIGRATIONS, SCHEMA, SCHEMA_VERSION, VIEWS
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batch, make_record, make_run

NEXT = f"{int(SCHEMA_VERSION) + 1:04}"
RECORDS = [make_record(row=row) for row in range(3)]
COLOURED = f'''"""Runs get a colour."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{SCHEMA_VERSION}"


def upgrade():
    op.add_column("runs", sa.Column("colour", sa.Text(), nullable=False, server_default="green"))
'''
OPENED = [open_for_reading, open_for_writing]


def release_next(monkeypatch: pytest.MonkeyPatch, folder: Path, migration: str = COLOURED) -> None:
    """From now on this is a later Chimbuko, which has one more migration."""
    migrations = shutil.copytree(MIGRATIONS, folder / "50% of migrations")
    (migrations / f"versions/{NEXT}_next.py").write_text(migration)
    monkeypatch.setattr(store, "MIGRATIONS", migrations)
    monkeypatch.setattr(store, "SCHEMA_VERSION", NEXT)


@pytest.fixture
def earlier(any_empty_url: str) -> str:
    """A store that this Chimbuko wrote, on each kind of database in turn."""
    engine = open_for_writing(any_empty_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    writer.write([make_batch(1, records=RECORDS)])
    engine.dispose()
    return any_empty_url


def colours(url: str) -> list[str]:
    engine = open_as_it_is(url)
    with engine.connect() as connection:
        found = [colour for (colour,) in connection.exec_driver_sql("SELECT colour FROM runs")]
    engine.dispose()
    return found


@pytest.mark.parametrize("open_store", OPENED)
def test_a_store_of_an_earlier_release_is_brought_up_to_date(
    earlier: str, open_store: Callable[[str], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_next(monkeypatch, tmp_path)
    for _ in range(2):
        open_store(earlier).dispose()
        assert colours(earlier) == ["green"]
    with Provenance(open_for_reading(earlier), RUN_ID) as provenance:
        assert provenance.calls.count(CallFilter(label=None)) == len(RECORDS)
        assert [provenance.calls.record(record.id) for record in RECORDS] == RECORDS


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    earlier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        release_next(later, tmp_path, COLOURED + '    op.execute("UPDATE nothing SET colour = 1")\n')
        with pytest.raises(StoreError, match="nothing"):
            open_for_writing(earlier)
    engine = open_for_writing(earlier)
    assert "colour" not in {column["name"] for column in inspect(engine).get_columns("runs")}
    engine.dispose()


def test_a_store_is_opened_as_it_is(earlier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release_next(monkeypatch, tmp_path)
    engine = open_as_it_is(earlier)
    assert "colour" not in {column["name"] for column in inspect(engine).get_columns("runs")}
    engine.dispose()


@pytest.mark.parametrize("open_store", [*OPENED, open_as_it_is])
@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("9999", f"has the layout 9999, this Chimbuko knows {SCHEMA_VERSION}; use"),
        ("0012", "from before the first release, whose layout 0012 cannot be read any more; repeat the run"),
    ],
)
def test_a_store_of_an_unknown_layout_is_refused_in_one_line(
    engine: Engine, store_url: str, open_store: Callable[[str], Engine], version: str, said: str
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
    with pytest.raises(StoreError) as caught:
        open_store(store_url)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_new_store_has_what_is_described(any_empty_url: str) -> None:
    engine = open_for_writing(any_empty_url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SCHEMA) == []
        found = inspect(connection)
        indexes = {index["name"] for index in found.get_indexes("calls")}
        assert set(found.get_view_names()) == VIEWS.keys()
    engine.dispose()
    assert indexes >= {index.name for index in SCHEMA.tables["calls"].indexes}


def test_indexes_of_few_calls_have_only_these(engine: Engine) -> None:
    statement = "SELECT name, sql FROM sqlite_master WHERE sql LIKE '%WHERE%' AND type = 'index'"
    with engine.connect() as connection:
        found = {name: sql.partition(" WHERE ")[2] for name, sql in connection.exec_driver_sql(statement)}
    assert found == {
        "ix_calls_gpu": "is_gpu = 1",
        "ix_calls_open": "is_open = 1",
        "ix_calls_relabelled": "is_relabelled = 1",
        "ix_calls_incident_id": "incident_id IS NOT NULL",
    }


def test_migrations_lead_from_the_first_release_to_the_newest_layout() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert (scripts.get_base(), scripts.get_current_head()) == (FIRST_RELEASE, SCHEMA_VERSION)


def test_a_new_store_loads_no_migrations(tmp_path: Path) -> None:
    code = (
        "import sys; from chimbuko.provenance.store.engine import close, open_for_writing\n"
        f"close(open_for_writing('sqlite:///{tmp_path / 'new.db'}'))\n"
        "print('alembic' in sys.modules, 'sqlalchemy.dialects.postgresql' in sys.modules)"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert reported.stdout == "False False\n"
