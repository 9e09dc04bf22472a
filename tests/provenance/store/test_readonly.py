from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from chimbuko.core.errors import ChimbukoError, ConfigError, StoreError
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.readonly import answer_to, parameters_of
from chimbuko.provenance.store.tables import SCHEMA
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batches, make_record, make_run

Ask = Callable[..., tuple[list[str], list[tuple[Any, ...]]]]

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
ENDLESS_PIECES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

ATTACKS = [
    "DELETE FROM calls",
    "UPDATE runs SET name = 'x'",
    "INSERT INTO runs SELECT * FROM runs",
    "DROP TABLE calls",
    "ALTER TABLE calls ADD COLUMN evil INTEGER",
    "CREATE TABLE evil (x INTEGER)",
    "CREATE TABLE evil AS SELECT 1",
    "CREATE TEMP TABLE evil AS SELECT 1",
    "CREATE VIEW evil AS SELECT 1",
    "CREATE INDEX evil ON calls (rank)",
    "WITH old AS (SELECT 1) DELETE FROM calls",
    "SELECT 1; DROP TABLE calls",
    "SELECT 1;; DELETE FROM calls --",
    "COMMIT",
    "ROLLBACK; DELETE FROM calls",
    "BEGIN",
    "SAVEPOINT a",
    "EXPLAIN DELETE FROM calls",
    "ANALYZE",
    "REINDEX",
    "VACUUM",
    "",
    ";",
    "-- nothing",
    "/* nothing",
    "SELEC 1",
    "SELECT * FROM nowhere",
]
SQLITE_ATTACKS = [
    "VACUUM INTO 'evil'",
    "ATTACH 'evil' AS evil",
    "ATTACH 'file:evil?mode=rwc' AS evil",
    "DETACH main",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA user_version = 7",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA temp_store_directory = 'evil'",
    "PRAGMA data_store_directory = 'evil'",
    "PRAGMA optimize",
    "PRAGMA incremental_vacuum",
    "SELECT * FROM pragma_journal_mode",
    "SELECT * FROM pragma_user_version",
    "CREATE VIRTUAL TABLE temp.evil USING fts5(x)",
    "CREATE TEMP TRIGGER evil AFTER INSERT ON calls BEGIN SELECT 1; END",
    "SELECT load_extension('evil')",
    "SELECT writefile('evil', 'x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT zeroblob(1000000000)",
    "SELECT like(hex(zeroblob(2000)), 'a')",
    "REPLACE INTO runs SELECT * FROM runs",
]
POSTGRESQL_ATTACKS = [
    "WITH gone AS (DELETE FROM calls RETURNING id) SELECT * FROM gone",
    "WITH new AS (INSERT INTO programs VALUES (1, 9, 'x') RETURNING run) SELECT * FROM new",
    "SELECT 1 INTO evil",
    "SELECT * FROM runs FOR UPDATE",
    "COPY runs TO PROGRAM 'touch evil'",
    "COPY (SELECT 1) TO '/tmp/evil'",
    "COPY runs TO STDOUT",
    "SET transaction_read_only = off",
    "RESET ALL",
    "DO 'BEGIN DELETE FROM calls; END'",
    "CALL evil()",
    "EXECUTE evil",
    "PREPARE evil AS SELECT 1",
    "DECLARE evil CURSOR FOR SELECT 1",
    "LISTEN evil",
    "LOCK TABLE calls",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT query_to_xml('DELETE FROM calls', true, true, '')",
    "SELECT query_to_xml('COMMIT', true, true, '')",
    "SELECT nextval(pg_get_serial_sequence('calls', 'id'))",
    "SELECT setval(pg_get_serial_sequence('calls', 'id'), 9)",
    "TRUNCATE calls",
]


def make_store(url: str) -> str:
    """Makes a store with two runs; its URL."""
    engine = open_for_writing(url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    writer.write(make_batches([make_record(row=row, severity_us=1_000.0 * row) for row in range(1, 6)]))
    Writer(engine, "another").write_run(make_run("another", name="storm"))
    close(engine)
    return url


@pytest.fixture(scope="module")
def filled_url(shared_store_url: str) -> str:
    """A store with two runs, on each kind of database in turn."""
    return make_store(shared_store_url)


@pytest.fixture
def engine(filled_url: str) -> Iterator[Engine]:
    """The store, open for reading."""
    engine = open_for_reading(filled_url)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Path:
    """File of a store, alone in its folder."""
    path = tmp_path / "run" / "provenance.sqlite"
    path.parent.mkdir()
    make_store(f"sqlite:///{path}")
    return path


def rows(engine: Engine, statement: str, time_limit_s: float = 20.0) -> list[tuple[Any, ...]]:
    with answer_to(engine, statement, {}, time_limit_s) as answer:
        return list(answer.rows)


@pytest.fixture
def ask(engine: Engine) -> Ask:
    """Column names and rows of an answer."""

    def ask(
        statement: str, time_limit_s: float = 20.0, **parameters: Any
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        with answer_to(engine, statement, parameters, time_limit_s) as answer:
            return answer.columns, list(answer.rows)

    return ask


def is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def content(engine: Engine) -> dict[str, list[Any]]:
    """All rows of all tables."""
    with engine.connect() as connection:
        return {
            name: [tuple(row) for row in connection.execute(table.select().order_by(*table.primary_key))]
            for name, table in SCHEMA.tables.items()
        }


def test_an_answer_has_columns_and_rows(ask: Ask) -> None:
    columns, rows = ask(
        "SELECT begin_row, severity_us FROM calls WHERE severity_us > 3000 ORDER BY begin_row"
    )
    assert columns == ["begin_row", "severity_us"]
    assert rows == [(4, 4_000.0), (5, 5_000.0)]


def test_no_rows_are_an_answer_too(ask: Ask) -> None:
    assert ask("SELECT rank FROM calls WHERE rank = 77") == (["rank"], [])


def test_columns_of_the_same_name_are_told_apart(ask: Ask) -> None:
    columns, _ = ask("SELECT a.rank, b.rank, a.rank FROM calls a, calls b")
    assert columns == ["rank", "rank_2", "rank_3"]


def test_statements_name_the_run(ask: Ask, engine: Engine) -> None:
    for run_id, name in ((RUN_ID, "heat"), ("another", "storm")):
        parameters = parameters_of(engine, run_id)
        assert ask("SELECT name FROM runs WHERE number = :run", **parameters)[1] == [(name,)]
        named = ask("SELECT name, ':run' FROM runs WHERE id = :run_id AND number = :run", **parameters)
        assert named[1] == [(name, ":run")]


def test_parameters_are_bound_and_not_written_into_the_statement(ask: Ask) -> None:
    evil = "x'; DROP TABLE calls; --"
    assert ask("SELECT name FROM runs WHERE name = :name", name=evil)[1] == []
    with pytest.raises(ConfigError, match=r"^SQL: "):
        ask("SELECT :unknown")


def test_sums_are_numbers(ask: Ask) -> None:
    [(total, mean)] = ask("SELECT sum(inclusive_us), avg(rank) FROM calls")[1]
    assert (total, mean) == (45_000, 1.0)
    assert isinstance(total, int | float)


def test_more_rows_than_are_fetched_at_once(ask: Ask) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i FROM n"
    assert [i for (i,) in ask(numbers)[1]] == list(range(1, 2501))


def test_large_values_do_not_fill_the_memory(sqlite_store: Path) -> None:
    engine = open_for_reading(f"sqlite:///{sqlite_store}")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
    with (
        pytest.raises(ConfigError, match="the answer has more than 512 MB"),
        answer_to(engine, f"{numbers} SELECT zeroblob(60000000) FROM n", {}) as answer,
    ):
        for _ in answer.rows:
            pass
    engine.dispose()


def test_what_is_not_read_is_not_computed(engine: Engine) -> None:
    with answer_to(engine, ENDLESS_PIECES, {}, 20.0) as answer:
        assert [next(answer.rows) for _ in range(2_500)] == [(i,) for i in range(1, 2_501)]


INTERRUPTED = """
import os, signal, sys, threading
from chimbuko.provenance.store.readonly import answer_to
from chimbuko.provenance.store.engine import open_for_reading
engine = open_for_reading(sys.argv[1])
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
with answer_to(engine, sys.argv[2], {}, 20.0) as answer:
    list(answer.rows)
"""


@pytest.mark.parametrize("statement", [ENDLESS, ENDLESS_PIECES])
def test_a_limit_on_the_time(ask: Ask, statement: str) -> None:
    with pytest.raises(ConfigError, match=r"^SQL: took longer than 0.3 s"):
        ask(statement, 0.3)


def test_ctrl_c_ends_a_statement(engine: Engine) -> None:
    url = engine.url.render_as_string(hide_password=False)
    # In a process of its own: one that runs tests may be ended by it.
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, url, ENDLESS], capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.endswith("KeyboardInterrupt\n")


def test_nothing_but_reading_is_answered(ask: Ask, engine: Engine, in_empty_folder: Path) -> None:
    before = content(engine)
    for statement in (*ATTACKS, *(SQLITE_ATTACKS if is_sqlite(engine) else POSTGRESQL_ATTACKS)):
        with pytest.raises(ConfigError, match=r"^SQL: [^\n]+$"):
            print(statement, ask(statement))
    assert content(engine) == before
    assert list(in_empty_folder.iterdir()) == []


def test_what_a_statement_did_to_its_session_is_gone(postgresql_url: str) -> None:
    engine = open_for_reading(make_store(postgresql_url))
    rows(engine, "SELECT set_config('search_path', 'pg_catalog', false), pg_advisory_lock(7)")
    # PostgreSQL before 16 lets a read-only transaction make large objects.
    with suppress(ConfigError):
        rows(engine, "SELECT lo_create(7)")
    assert rows(engine, "SELECT count(*) FROM runs") == [(2,)]
    assert rows(engine, "SELECT pg_try_advisory_lock(7)") == [(True,)]
    assert rows(engine, "SELECT count(*) FROM pg_largeobject_metadata") == [(0,)]
    engine.dispose()


def test_a_statement_cannot_lift_the_limit_on_its_time(postgresql_url: str) -> None:
    engine = open_for_reading(make_store(postgresql_url))
    lifting = f"SELECT set_config('statement_timeout', '0', false), i FROM ({ENDLESS_PIECES}) numbers"
    with pytest.raises(ConfigError, match="took longer"):
        rows(engine, lifting, 0.3)
    engine.dispose()


def test_what_only_reports_is_allowed_in_sqlite(sqlite_store: Path) -> None:
    engine = open_for_reading(f"sqlite:///{sqlite_store}")
    assert "severity_us" in {row[1] for row in rows(engine, "PRAGMA table_info(calls)")}
    assert rows(engine, "EXPLAIN QUERY PLAN SELECT * FROM calls")
    settings = "SELECT value FROM runs, json_each(config) WHERE runs.id = 'another' AND key = 'detector'"
    assert rows(engine, settings) == [("robust",)]
    engine.dispose()


def test_a_damaged_store_is_no_fault_of_the_statement(sqlite_store: Path) -> None:
    engine = open_for_reading(f"sqlite:///{sqlite_store}")
    page = 2048
    with sqlite_store.open("r+b") as file:
        file.seek(page)
        file.write(os.urandom(sqlite_store.stat().st_size - page))
    with pytest.raises(StoreError, match=r"provenance\.sqlite: .*(malformed|not a database)"):
        rows(engine, "SELECT * FROM calls")
    engine.dispose()


LANGUAGE = """
SELECT FROM WHERE DELETE UPDATE SET VALUES WITH AS RECURSIVE PRAGMA ATTACH VACUUM INTO CREATE TEMP TABLE DROP
BEGIN COMMIT EXPLAIN REPLACE REINDEX ALTER ON calls runs rank evil * ( ) , ; = 1 journal_mode user_version
writable_schema sqlite_master main. temp. 'evil' -- /* */ :run ? $1 %s load_extension('evil')
"""
WORDS = st.sampled_from([*LANGUAGE.split(), "INSERT INTO", "RENAME TO", "\0"])
STATEMENTS = st.one_of(
    st.lists(WORDS, max_size=8).map(" ".join),
    st.sampled_from([*ATTACKS, *SQLITE_ATTACKS]).flatmap(
        lambda attack: st.integers(0, len(attack)).flatmap(
            lambda at: st.tuples(WORDS, st.text(max_size=3)).map(
                lambda new: f"{attack[:at]} {new[0]} {new[1]}{attack[at:]}"
            )
        )
    ),
    st.text(max_size=20),
)


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, where whatever names a file without a path would put it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SQLITE_TMPDIR", str(folder))
    return folder


@given(statement=STATEMENTS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_statement_changes_a_byte(statement: str, sqlite_store: Path, in_empty_folder: Path) -> None:
    before = sqlite_store.read_bytes()
    engine = open_for_reading(f"sqlite:///{sqlite_store}")
    try:
        rows(engine, statement)
    except ChimbukoError as error:
        assert "\n" not in str(error)
    finally:
        engine.dispose()
    assert sqlite_store.read_bytes() == before
    log = sqlite_store.with_name(sqlite_store.name + "-wal")
    assert not log.exists() or log.stat().st_size == 0
    assert list(in_empty_folder.iterdir()) == []
    assert {path.name for path in sqlite_store.parent.iterdir()} <= {
        *(sqlite_store.name, log.name, f"{sqlite_store.name}-shm"),
    }
