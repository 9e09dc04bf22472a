"""Runs, functions and texts become numbers, and the details of calls packed bytes: a quarter of the size."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

from chimbuko.core.calls.record import CallRecord, CounterValue, Message, StackFrame, StreamHealth, WindowCall
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.store.encode import CALL_COLUMNS, call_rows, node_state_rows, store_records

revision = "0002"
down_revision = "0001"

AT_ONCE = 1000
"""Calls that are converted together."""
OLD_TABLES = {
    "dropped": ("pk_dropped",),
    "metadata": ("pk_metadata",),
    "programs": ("pk_programs",),
    "steps": ("pk_steps",),
    "stream_health": ("pk_stream_health",),
    "function_statistics": ("pk_function_statistics",),
    "calls": ("pk_calls", "uq_calls"),
    "functions": ("pk_functions", "uq_functions"),
    "runs": ("pk_runs",),
}
"""With the constraints whose names new tables use again; each stands before those it refers to."""
OLD_INDEXES = ("entry", "function", "label", "rank_step", "score", "severity")
RUN = (
    "id, name, command, state, started_us, ended_us, exit_code, host, store_url, config, version, "
    "trace_bytes, stored_bytes"
)
COPIED = {
    "programs": ("program", "name"),
    "steps": ("program", "rank", "step", "start_us", "end_us", "calls", "anomalies", "severity_us"),
    "stream_health": (
        *("program", "rank", "node", "state", "steps", "rows", "size_bytes", "calls", "anomalies"),
        *("gap_steps", "losses"),
    ),
    "dropped": ("stream", "function", "anomalies"),
}
"""Tables and columns that stay as they are, but for the run."""
STATISTICS = (
    *(
        "calls",
        "anomalies",
        "severity_us",
        "exclusive_mean_us",
        "exclusive_stddev_us",
        "exclusive_minimum_us",
    ),
    *("exclusive_maximum_us", "inclusive_mean_us", "inclusive_maximum_us"),
)


def upgrade() -> None:
    put_old_tables_aside()
    make_tables()
    bind = op.get_bind()
    bind.exec_driver_sql(f"INSERT INTO runs ({RUN}) SELECT {RUN} FROM old_runs ORDER BY started_us, id")
    for table, names in COPIED.items():
        new, old = (", ".join(f'{prefix}"{name}"' for name in names) for prefix in ("", "old."))
        bind.exec_driver_sql(
            f"INSERT INTO {table} (run, {new}) "
            f"SELECT runs.number, {old} FROM old_{table} AS old JOIN runs ON runs.id = old.run_id"
        )
    for number, identity in bind.exec_driver_sql("SELECT number, id FROM runs").all():
        RunConversion(bind, number, identity).convert()
    for table in OLD_TABLES:
        op.drop_table(f"old_{table}")


def put_old_tables_aside() -> None:
    """New tables have the old names; only in SQLite may two constraints have the same."""
    for name in OLD_INDEXES:
        op.drop_index(f"ix_calls_{name}", "calls")
    for table, constraints in OLD_TABLES.items():
        op.rename_table(table, f"old_{table}")
        if op.get_bind().dialect.name == "postgresql":
            for constraint in constraints:
                op.execute(f"ALTER TABLE old_{table} RENAME CONSTRAINT {constraint} TO old_{constraint}")


class RunConversion:
    """What of one run is stored as numbers now."""

    def __init__(self, bind: sa.Connection, run: int, identity: str) -> None:
        self._bind = bind
        self._run = run
        self._identity = identity
        self._functions: dict[tuple[int, str], int] = {}
        self._texts: dict[str, int] = {}

    def convert(self) -> None:
        of_old_id = {
            function.id: self._function(function.program, function.name)
            for function in self._old(
                "SELECT id, program, name FROM old_functions WHERE run_id = :run ORDER BY id"
            )
        }
        rows = self._old(
            "SELECT old_calls.*, name FROM old_calls JOIN old_functions ON old_functions.id = function_id "
            "WHERE old_calls.run_id = :run ORDER BY old_calls.program, rank, old_calls.id"
        )
        for (program, rank, node), calls in groupby(rows, key=lambda row: (row.program, row.rank, row.node)):
            health = StreamHealth(program, rank, node, "", 0, 0, 0, 0, 0, 0, {})
            while some := [record(row) for row in islice(calls, AT_ONCE)]:
                self._convert_calls(health, some)
        self._insert(
            "metadata",
            ("program", "rank", "thread", "key", "value"),
            [
                (row.program, row.rank, row.thread, self._text(row.key), self._text(row.value))
                for row in self._old("SELECT * FROM old_metadata WHERE run_id = :run")
            ],
        )
        statistics = self._old(
            f"SELECT id, {', '.join(STATISTICS)} FROM old_function_statistics "
            "JOIN old_functions ON old_functions.id = function_id WHERE run_id = :run"
        )
        self._insert(
            "function_statistics",
            ("function", *STATISTICS),
            [(of_old_id[row[0]], *row[1:]) for row in statistics],
        )
        functions = [(number, *key) for key, number in self._functions.items()]
        self._insert("functions", ("number", "program", "name"), functions)
        self._insert("texts", ("number", "text"), [(number, text) for text, number in self._texts.items()])

    def _convert_calls(self, health: StreamHealth, records: list[CallRecord]) -> None:
        packed = pack(records)
        stored = store_records(
            packed,
            {number: self._function(health.program, name) for number, name in packed.functions.items()},
            {number: self._text(name) for number, name in packed.counter_names.items()},
        )
        # Columns of later layouts come with these.
        known = {column["name"] for column in sa.inspect(self._bind).get_columns("calls")} - {"run"}
        kept = [n for n, name in enumerate(CALL_COLUMNS) if name in known]
        rows = call_rows(self._run, health, stored, [-1] * len(records))
        self._insert(
            "calls", tuple(CALL_COLUMNS[n] for n in kept), [tuple(row[n] for n in kept) for row in rows]
        )
        for key, state in node_state_rows(self._run, health, stored).items():
            self._bind.execute(
                sa.text(
                    "INSERT INTO node_states VALUES (:run, :program, :rank, :step, :state) "
                    "ON CONFLICT (run, program, rank, step) DO NOTHING"
                ),
                dict(zip(("run", "program", "rank", "step", "state"), (*key, state), strict=True)),
            )

    def _old(self, statement: str) -> sa.CursorResult[Any]:
        return self._bind.execute(
            sa.text(statement), {"run": self._identity}, execution_options={"yield_per": AT_ONCE}
        )

    def _insert(self, table: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        names = ("run", *columns)
        into = sa.table(table, *(sa.column(name) for name in names))
        if rows:
            self._bind.execute(
                into.insert(), [dict(zip(names, (self._run, *row), strict=True)) for row in rows]
            )

    def _function(self, program: int, name: str) -> int:
        return self._functions.setdefault((program, name), len(self._functions))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def record(row: sa.Row[Any]) -> CallRecord:
    """A call as it was stored, with lists of values in msgpack."""
    stack, window, messages, counters, node_state = msgspec.msgpack.decode(row.details)[:5]
    same = set(CallRecord.__struct_fields__) & set(row._mapping)
    return CallRecord(
        **{name: row._mapping[name] for name in same - {"id", "label", "is_final"}},
        id=row.event_id,
        label=Label(row.label),
        is_final=bool(row.is_final),
        function=row.name,
        call_stack=[StackFrame(*frame) for frame in stack],
        window=[WindowCall(*call) for call in window],
        messages=[Message(*message) for message in messages],
        counters=[CounterValue(*value) for value in counters],
        node_state=[CounterValue(*value) for value in node_state],
        metrics=[],
        is_gpu=False,
        launch_id="",
        launch_stack=[],
        model_version=0,
    )


def make_tables() -> None:
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("store_url", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("trace_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_runs"),
        sa.UniqueConstraint("id", name="uq_runs"),
    )
    make_calls()
    make_keyed("programs", integers("program"), texts("name"))
    make_indexed("functions", integers("number"), [*integers("program"), *texts("name")])
    make_indexed("texts", integers("number"), texts("text"))
    make_keyed(
        "steps",
        integers("program", "rank", "step"),
        [*big_integers("start_us", "end_us", "calls", "anomalies"), *reals("severity_us")],
    )
    make_indexed("node_states", integers("program", "rank", "step"), blobs("counters"))
    make_indexed("models", [*integers("function"), *big_integers("version")], blobs("model"))
    make_keyed(
        "stream_health",
        integers("program", "rank"),
        [
            *texts("node", "state"),
            *big_integers("steps", "rows", "size_bytes", "calls", "anomalies", "gap_steps"),
            sa.Column("losses", sa.JSON(), nullable=False),
            sa.Column("silence", sa.JSON(), nullable=True),
            sa.Column("largest_step_bytes", sa.BigInteger(), nullable=False, server_default="0"),
        ],
    )
    make_keyed("metadata", integers("program", "rank", "thread", "key"), integers("value"))
    make_keyed("dropped", texts("stream", "function"), big_integers("anomalies"))
    make_keyed(
        "function_statistics",
        integers("function"),
        [
            *big_integers(*STATISTICS[:2]),
            *reals(*STATISTICS[2:]),
            sa.Column("drift", sa.Double(), nullable=False, server_default="1"),
        ],
    )
    make_keyed(
        "counter_statistics",
        integers("program", "rank", "counter"),
        reals("n", "mean", "m2", "m3", "m4", "minimum", "maximum"),
    )


def make_calls() -> None:
    op.create_table(
        "calls",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        *integers("run", "program", "rank", "begin_step", "begin_row", "revision"),
        *flags("is_final", "is_anomaly", "is_open", "is_gpu"),
        *integers("thread", "function"),
        *big_integers("entry_us", "inclusive_us", "exclusive_us"),
        *integers("step"),
        *reals("score", "severity_us", "expected_us", "spread_us"),
        *big_integers("seen", "model_version"),
        *integers("depth", "children", "messages_count", "left_out", "launch_step", "launch_row"),
        sa.Column("incident_id", sa.Text(), nullable=True),
        *blobs("details"),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
        sa.UniqueConstraint("run", "program", "rank", "begin_step", "begin_row", name="uq_calls"),
    )
    op.create_index("ix_calls_entry", "calls", ["run", "entry_us"])
    op.create_index("ix_calls_function", "calls", ["run", "function", "is_anomaly", "severity_us"])
    op.create_index("ix_calls_rank_step", "calls", ["run", "rank", "step", "is_anomaly"])
    op.create_index("ix_calls_score", "calls", ["run", "score"])
    op.create_index("ix_calls_severity", "calls", ["run", "severity_us"])


def make_keyed(name: str, key: list[sa.Column[Any]], others: list[sa.Column[Any]]) -> None:
    make_indexed(name, key, others, sqlite_with_rowid=False)


def make_indexed(name: str, key: list[sa.Column[Any]], others: list[sa.Column[Any]], **options: bool) -> None:
    key = [*integers("run"), *key]
    op.create_table(
        name,
        *key,
        *others,
        sa.PrimaryKeyConstraint(*(column.name for column in key), name=f"pk_{name}"),
        **options,
    )


def integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in names]


def big_integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False) for name in names]


def reals(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double(), nullable=False) for name in names]


def texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def flags(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Boolean(), nullable=False) for name in names]


def blobs(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.LargeBinary(), nullable=False) for name in names]
