"""A new store is what all migrations make.

To write ``newest.sql`` anew: python -m tests.provenance.store.test_newest
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy

from chimbuko.provenance.store.engine import NEWEST, close, open_for_writing, upgrade
from chimbuko.provenance.store.tables import SCHEMA_VERSION


def migrated(path: Path) -> str:
    """What the migrations make of an empty store, as a script."""
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        upgrade(connection, None)
    engine.dispose()
    return script_of(path)


def script_of(path: Path) -> str:
    """All that is in a store, one statement after the other."""
    connection = sqlite3.connect(path)
    lines = [line for line in connection.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    connection.close()
    return "\n".join(lines).removesuffix(";") + "\n"


def test_a_new_store_is_what_the_migrations_make(tmp_path: Path) -> None:
    assert migrated(tmp_path / "migrated.db") == NEWEST.read_text()
    close(open_for_writing(f"sqlite:///{tmp_path / 'new.db'}"))
    assert script_of(tmp_path / "new.db") == NEWEST.read_text()
    assert f"VALUES('{SCHEMA_VERSION}')" in NEWEST.read_text()


def test_a_new_store_loads_no_migrations(tmp_path: Path) -> None:
    code = (
        "import sys; from chimbuko.provenance.store.engine import close, open_for_writing\n"
        f"close(open_for_writing('sqlite:///{tmp_path / 'new.db'}')); print('alembic' in sys.modules)"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert reported.stdout == "False\n"


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        NEWEST.write_text(migrated(Path(folder) / "store.db"))
