from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, select

from chimbuko.core.calls.record import CallRecord
from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store import engine as store
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing, store_errors
from chimbuko.provenance.store.tables import PROGRAMS, RUNS
from chimbuko.provenance.store.urls import public_url
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch

SECRET = "hush"
ROWS = 1000
"""So many that half of a store is not half of its schema."""


def test_opening_again_keeps_what_is_there(writer: Writer, store_url: str) -> None:
    again = open_for_writing(store_url)
    with again.connect() as connection:
        assert len(connection.execute(select(RUNS)).all()) == 1
    again.dispose()


def test_readers_see_what_is_committed_while_a_writer_writes(
    writer: Writer,
    engine: Engine,
    provenance: Provenance,
    batch: Callable[..., RecordBatch],
    record: Callable[..., CallRecord],
) -> None:
    writer.write([batch(records=[record(row=1)])])
    with engine.begin() as connection:
        connection.execute(PROGRAMS.insert().values(run=1, program=0, name="heat"))
        assert provenance.programs() == {}
        assert provenance.calls.record("0:1:3:1") == record(row=1)
    assert provenance.programs() == {0: "heat"}


def test_readers_cannot_write(writer: Writer, store_url: str) -> None:
    engine = open_for_reading(store_url)
    with pytest.raises(StoreError, match="readonly"), store_errors(engine), engine.begin() as connection:
        connection.execute(PROGRAMS.insert().values(run=1, program=0, name="heat"))
    engine.dispose()


def test_paths_with_special_characters_are_paths(tmp_path: Path) -> None:
    folder = tmp_path / "50% done? #1 [&]"
    folder.mkdir()
    url = f"sqlite:///{folder / 'a b.sqlite'}".replace("?", "%3F")
    open_for_writing(url).dispose()
    assert (folder / "a b.sqlite").is_file()
    open_for_reading(url).dispose()


@pytest.mark.parametrize("open_store", [open_for_reading, open_for_writing])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "cannot be understood"),
        (f"me:{SECRET}@db", "cannot be understood"),
        (f"mysql://me:{SECRET}@db/x", "mysql: not a kind of store"),
        ("sqlite://", "names no file"),
        ("sqlite:////no/such/folder/p.sqlite", "/no/such/folder/p.sqlite: "),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/x?sslpassword={SECRET}", "cannot be reached"),
    ],
)
def test_unusable_urls_are_said_in_one_line_without_the_password(
    open_store: Callable[[str], Engine], url: str, said: str
) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    message = str(caught.value)
    assert said in message
    assert SECRET not in message
    assert "\n" not in message


@pytest.mark.parametrize("open_store", [open_for_reading, open_for_writing])
@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to look like one" * 100, b"SQLite"]
)
def test_a_corrupt_database_is_named(
    tmp_path: Path, open_store: Callable[[str], Engine], content: bytes
) -> None:
    path = tmp_path / "p.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"p\.sqlite: not a usable database .*restore"):
        open_store(f"sqlite:///{path}")


def is_readable(provenance: Provenance, row: int) -> bool:
    try:
        provenance.calls.record(f"0:1:3:{row}")
        return True
    except StoreError as error:
        assert "not a usable database" in str(error)
        return False


@pytest.mark.thorough
def test_damage_inside_is_found_when_it_is_read(
    writer: Writer,
    engine: Engine,
    store_url: str,
    tmp_path: Path,
    record: Callable[..., CallRecord],
    batch: Callable[..., RecordBatch],
) -> None:
    writer.write([batch(records=[record(row=row) for row in range(ROWS)])])
    engine.dispose()
    path = tmp_path / "provenance.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
    with Provenance(open_for_reading(store_url), "0123456789ab") as provenance:
        readable = [row for row in range(ROWS) if is_readable(provenance, row)]
    assert len(readable) < ROWS


def test_a_database_of_something_else_is_not_taken_for_provenance(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="holds no provenance"):
        open_for_reading(f"sqlite:///{path}")


def test_a_locked_store_is_said_to_be_locked(
    engine: Engine, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.01)
    with engine.begin(), pytest.raises(store.StoreBusy, match="held by another program"):
        open_for_writing(store_url)


READ_AS_ANOTHER_USER = """
import os, sys
from chimbuko.core.errors import StoreError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading, open_for_writing

def name(url):
    return Provenance(open_for_reading(url)).run().name

own, foreign = sys.argv[1:]
open_for_writing(own)
name(own)  # all modules are loaded while they can be read
os.setuid(65534)
print(name(foreign))
try:
    open_for_writing(foreign)
except StoreError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_store_in_a_folder_of_someone_else_can_be_read_but_not_written(
    writer: Writer, engine: Engine, store_url: str, tmp_path: Path
) -> None:
    engine.dispose()
    # Not under tmp_path, which others cannot enter.
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.copy(tmp_path / "provenance.sqlite", folder)
        folder.chmod(0o555)
        command = [
            sys.executable,
            "-c",
            READ_AS_ANOTHER_USER,
            store_url,
            f"sqlite:///{folder}/provenance.sqlite",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(folder)
    name, refusal = done.stdout.splitlines()
    assert name == "heat"
    assert "check the permissions" in refusal


def test_public_url_hides_passwords_and_options() -> None:
    shown = public_url(f"postgresql://me:{SECRET}@db:5432/x?password={SECRET}")
    assert shown == "postgresql+psycopg://me:***@db:5432/x"


def test_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    """For then it is acknowledged, and agents keep it no longer."""
    engine = open_for_writing(f"sqlite:///{tmp_path / 'provenance.sqlite'}")
    with engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        }
    store.close(engine)
    # 2 is FULL: the log is synced with each commit, and its folder when it is made.
    assert found == {"journal_mode": "wal", "synchronous": 2}


def test_a_store_that_cannot_be_written_is_closed_all_the_same(tmp_path: Path) -> None:
    """As on a read-only file system: why it could not be written has been said, in one line."""
    path = tmp_path / "provenance.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as beside:
        beside.execute("PRAGMA journal_mode=WAL")
        beside.execute("CREATE TABLE kept (number)")
        for refused in (f"sqlite:///file:{path}?mode=ro&uri=true", f"sqlite:///{tmp_path}/none/x.sqlite"):
            store.close(create_engine(refused))
        assert beside.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
