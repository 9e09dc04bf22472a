"""``chimbuko sql``: asks the store of a run in SQL."""

from __future__ import annotations

import csv
import io
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import click
import msgspec

from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.launcher.outcome.reach import reachable_run
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.provenance.store.readonly import TIME_LIMIT_S, Value, answer_to, parameters_of
from chimbuko.provenance.store.schemadocs import TableMeaning, describe
from chimbuko.runtime.runs.directory import RunDirectory

ROW_LIMIT = 1000
GRACE_S = 2.0
"""Time in seconds for the database to end a statement by itself, beyond the limit on its time."""


@click.command("sql", short_help="Ask a run's database in SQL; nothing can be changed.")
@click.argument("run", required=False)
@click.argument("query", required=False)
@click.option("--schema", "is_schema", is_flag=True, help="Print the tables and columns, and their meaning.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=ROW_LIMIT,
    show_default=True,
    help="Largest number of rows.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0, min_open=True),
    default=TIME_LIMIT_S,
    show_default=True,
    metavar="S",
    help="Longest time that the database may work, in seconds.",
)
@click.option("--json", "form", flag_value="json", help="Print rows as JSON objects.")
@click.option(
    "--csv", "form", flag_value="csv", help="Print rows as CSV, under a line with the names of the columns."
)
def command(
    run: str | None, query: str | None, is_schema: bool, limit: int, time_limit_s: float, form: str | None
) -> None:
    """Answer QUERY, one SELECT, from the store of RUN: a run's folder or name, by default the newest under
    ./chimbuko-runs. Without QUERY it is read from standard input. In it :run stands for the run's number,
    and :run_id for its id.

    \b
    Examples:
      chimbuko sql --schema
      chimbuko sql 'SELECT node, count(*) FROM anomalies GROUP BY node'
      chimbuko sql heat --csv 'SELECT * FROM steps WHERE run = :run' > steps.csv
      chimbuko sql heat < question.sql
    """
    folder, statement = _arguments(run, query)
    directory = reachable_run(folder, statement)
    info = directory.read_info()
    engine = open_for_reading(directory.used_store_url(info))
    try:
        if is_schema:
            _print_schema(describe(engine), form)
            return
        asked = _from_standard_input() if statement is None else statement
        bound = parameters_of(engine, info.id)
        with _ended_after(time_limit_s), answer_to(engine, asked, bound, time_limit_s) as answer:
            rows = list(islice(answer.rows, limit + 1))
    finally:
        engine.dispose()
    _print_rows(answer.columns, rows[:limit], len(rows) <= limit, form)
    if len(rows) > limit:
        print(f"the first {limit:,} rows; there are more, which --limit lets through", file=sys.stderr)


@contextmanager
def _ended_after(time_limit_s: float) -> Iterator[None]:
    """End this process where the context lasts longer: SQLite looks at no clock within a function."""

    def end() -> None:
        print(f"chimbuko: SQL: took longer than {time_limit_s:g} s, within one function", file=sys.stderr)
        sys.stderr.flush()
        os._exit(ConfigError.exit_code)

    timer = threading.Timer(time_limit_s + GRACE_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _arguments(run: str | None, query: str | None) -> tuple[Path | None, str | None]:
    """Run and statement. Either may be left out: a statement has blanks in it."""
    if run is not None and query is None and " " in " ".join(run.split()):
        is_run = RunDirectory(Path(run)).info_path.exists()
        run, query = (run, None) if is_run else (None, run)
    return None if run is None else Path(run), query


def _from_standard_input() -> str:
    if sys.stdin.isatty():
        raise ConfigError("no query; give one, such as 'SELECT * FROM functions', or see --schema")
    return sys.stdin.read()


def _print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Value]], is_complete: bool, form: str | None
) -> None:
    if form == "json":
        objects = [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]
        answer = {"rows": objects, "is_complete": is_complete}
        print_json(answer, enc_hook=str)
    elif form == "csv":
        written = io.StringIO()
        # Into a file as it is: there nothing acts, and CSV has no words for it.
        cleaned = visible if sys.stdout.isatty() else str
        csv.writer(written, lineterminator="\n").writerows(
            [columns, *([cleaned(_text(_plain(cell))) for cell in row] for row in rows)]
        )
        click.echo(written.getvalue(), nl=False)
    else:
        is_number = [
            all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))
        ]
        Output().table(
            [
                Column(name, is_number=number, may_shrink=not number)
                for name, number in zip(columns, is_number, strict=True)
            ],
            [[_shown(cell) for cell in row] for row in rows],
        )


def _print_schema(tables: list[TableMeaning], form: str | None) -> None:
    if form == "json":
        print_json({"tables": tables})
        return
    if form == "csv":
        columns = ["table", "column", "type", "meaning"]
        rows = [
            [table.name, *msgspec.structs.astuple(column)] for table in tables for column in table.columns
        ]
        _print_rows(columns, rows, True, form)
        return
    output = Output()
    for table in tables:
        output.heading(f"{table.name}: {table.meaning}")
        output.table(
            [Column("COLUMN"), Column("TYPE"), Column("MEANING", may_shrink=True)],
            [[column.name, column.type, column.meaning] for column in table.columns],
        )


def _plain(cell: Value) -> Value:
    """Return a value for JSON; bytes as hexadecimal digits."""
    return cell.hex() if isinstance(cell, bytes) else cell


def _text(cell: Value) -> str:
    """Return all of a cell; an empty one for NULL."""
    if cell is None:
        return ""
    if isinstance(cell, dict | list):
        return msgspec.json.encode(cell, enc_hook=str).decode()
    return str(cell)


def _shown(cell: Value) -> str:
    """Return a cell on one line."""
    if isinstance(cell, bytes):
        return f"<{len(cell)} bytes>"
    if isinstance(cell, float):
        return f"{cell:.10g}"
    return " ".join(_text(cell).split())
