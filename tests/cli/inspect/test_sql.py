from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.tables import SCHEMA
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.sample_records import make_batches, make_record

Ask = Callable[..., Result]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run of three calls, the newest of the current folder."""
    monkeypatch.chdir(tmp_path)
    run = new_run(Path("chimbuko-runs/heat"), ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write(make_batches([make_record(row, severity_us=1_234.5 * row) for row in range(3)]))
    close(engine)
    return run


@pytest.fixture
def ask(run: RunDirectory) -> Ask:
    return lambda *arguments, **options: CliRunner().invoke(main, ["sql", *arguments], **options)


def test_rows_of_the_newest_run_as_a_table(ask: Ask) -> None:
    result = ask("SELECT begin_row, severity_us, thread AS core FROM calls WHERE begin_row > 0 ORDER BY 1")
    assert result.stdout.splitlines() == [
        "begin_row  severity_us  core",
        "        1       1234.5     0",
        "        2         2469     0",
    ]
    assert result.stderr == ""


@pytest.mark.parametrize("name", ["heat", "chimbuko-runs/heat"])
def test_a_run_may_be_named_and_the_query_come_from_standard_input(ask: Ask, name: str) -> None:
    result = ask(
        name, "--json", input="SELECT name, state FROM runs\nWHERE number = :run AND id = :run_id;\n"
    )
    assert json.loads(result.stdout) == {
        "rows": [{"name": "heat", "state": "running"}],
        "is_complete": True,
    }


def test_a_run_and_a_query(ask: Ask) -> None:
    assert ask("heat", "SELECT max(begin_row) AS last FROM calls").stdout.split() == ["last", "2"]


def test_no_such_run(ask: Ask) -> None:
    result = ask("cold", "SELECT 1")
    assert result.exit_code == 2
    assert "cold: not the folder of a run" in result.stderr


def test_run_stands_first(ask: Ask) -> None:
    result = ask("SELECT 1", "heat")
    assert (result.exit_code, result.stderr) == (2, "chimbuko: heat: RUN stands first, before 'SELECT 1'\n")


def test_csv_holds_every_value(ask: Ask) -> None:
    result = ask(
        "--csv", "SELECT 'a,\"b\"' || char(10) AS text, NULL AS missing, x'00ff' AS bytes, 0.1 + 0.2 AS sum"
    )
    assert list(csv.reader(result.stdout.splitlines(keepends=True))) == [
        ["text", "missing", "bytes", "sum"],
        ['a,"b"\n', "", "00ff", "0.30000000000000004"],
    ]


def test_more_rows_than_the_limit(ask: Ask) -> None:
    result = ask("SELECT begin_row FROM calls ORDER BY begin_row", "--limit", "2", "--json")
    assert json.loads(result.stdout) == {"rows": [{"begin_row": 0}, {"begin_row": 1}], "is_complete": False}
    assert result.stderr == "the first 2 rows; there are more, which --limit lets through\n"


def test_a_limit_on_the_time(ask: Ask) -> None:
    result = ask(ENDLESS, "--time-limit", "0.2")
    assert result.exit_code == 2
    assert result.stderr.startswith("chimbuko: SQL: took longer than 0.2 s")


WITHIN_A_FUNCTION = "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(3000000)) || '1')"
"""Statement of one function that takes an hour, in which SQLite looks at no clock."""


def test_a_limit_on_the_time_of_one_function(run: RunDirectory) -> None:
    words = ["sql", str(run.path.absolute()), WITHIN_A_FUNCTION, "--time-limit", "0.2"]
    done = subprocess.run([sys.executable, "-m", "chimbuko", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "chimbuko: SQL: took longer than 0.2 s, within one function\n"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("DELETE FROM calls", "SQL: DELETE calls is not allowed (not authorized); only reading is"),
        ("SELECT rank FRM calls", 'SQL: near "calls": syntax error'),
        ("SELECT 1; SELECT 2", "SQL: You can only execute one statement at a time."),
    ],
)
def test_what_cannot_be_answered_is_told_in_one_line(ask: Ask, query: str, words: str) -> None:
    result = ask(query)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"chimbuko: {words}\n"


def test_the_schema_is_explained(ask: Ask) -> None:
    text = ask("--schema").stdout
    assert all(f"\n{table}: " in text for table in SCHEMA.tables)
    tables = {table["name"]: table for table in json.loads(ask("--schema", "--json").stdout)["tables"]}
    severity = next(column for column in tables["calls"]["columns"] if column["name"] == "severity_us")
    assert severity["meaning"] == "Time lost against what was expected, in µs"
    rows = list(csv.DictReader(ask("--schema", "--csv").stdout.splitlines()))
    assert {row["table"] for row in rows} == set(tables)


def test_the_examples_of_the_help_work(ask: Ask) -> None:
    assert ask("SELECT node, count(*) FROM anomalies GROUP BY node").stdout.split()[-2:] == ["node7", "3"]
    assert ask("heat", "--csv", "SELECT * FROM steps WHERE run = :run").stdout.count("\n") == 2
