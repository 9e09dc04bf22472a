"""Tables of the provenance store, the same on SQLite and PostgreSQL.

A store holds any number of runs, so each row says whose it is. All times are µs since the
Unix epoch on the trace's clock, as in ``chimbuko.records``.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = "0001"
"""Newest revision under ``migrations/versions``: what this code reads and writes."""

SCHEMA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)

# Only a column declared INTEGER numbers its rows by itself in SQLite.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


def _integer(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _real(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True)


def _run_key() -> Column[str]:
    return Column("run_id", Text, primary_key=True)


RUNS = Table(
    "runs",
    SCHEMA,
    Column("id", Text, primary_key=True),
    _text("name"),
    Column("command", JSON, nullable=False),
    _text("state"),
    _integer("started_us"),
    _integer("ended_us"),
    Column("exit_code", Integer),
    _text("host"),
    _text("store_url"),
    Column("config", JSON, nullable=False),
    _text("version"),
    _integer("trace_bytes"),
    _integer("stored_bytes"),
)
"""``RunInfo``; the store's URL is kept without its password."""

PROGRAMS = Table("programs", SCHEMA, _run_key(), _key("program"), _text("name"))

FUNCTIONS = Table(
    "functions",
    SCHEMA,
    Column("id", RowNumber, primary_key=True),
    _text("run_id"),
    _integer("program"),
    _text("name"),
    UniqueConstraint("run_id", "program", "name"),
)

CALLS = Table(
    "calls",
    SCHEMA,
    Column("id", RowNumber, primary_key=True),
    _text("run_id"),
    _text("event_id"),
    _integer("version"),
    _integer("revision"),
    Column("is_final", Boolean, nullable=False),
    _text("label"),
    _integer("program"),
    _integer("rank"),
    _integer("thread"),
    _text("node"),
    Column("function_id", RowNumber, ForeignKey("functions.id"), nullable=False),
    _integer("entry_us"),
    _integer("exit_us"),
    _integer("inclusive_us"),
    _integer("exclusive_us"),
    _integer("step"),
    _integer("step_start_us"),
    _integer("step_end_us"),
    _real("score"),
    _real("severity_us"),
    _real("expected_us"),
    _real("spread_us"),
    _integer("seen"),
    _text("detector"),
    _text("incident_id"),
    _integer("depth"),
    _integer("children"),
    _integer("messages_count"),
    _integer("left_out"),
    Column("details", LargeBinary, nullable=False),
    UniqueConstraint("run_id", "event_id"),
    # A label halves the rows at most, so it is not part of the sort orders' indexes.
    Index("ix_calls_label", "run_id", "label"),
    Index("ix_calls_severity", "run_id", "severity_us"),
    Index("ix_calls_score", "run_id", "score"),
    Index("ix_calls_entry", "run_id", "entry_us"),
    Index("ix_calls_rank_step", "run_id", "rank", "step"),
    Index("ix_calls_function", "function_id", "label", "severity_us"),
)
"""``CallRecord``: abnormal calls and normal ones for comparison. ``details`` is msgpack of ``CallDetails``:
it is read for one call at a time, and as rows of its own would halve the speed of writing."""

STEPS = Table(
    "steps",
    SCHEMA,
    _run_key(),
    _key("program"),
    _key("rank"),
    _key("step"),
    _integer("start_us"),
    _integer("end_us"),
    _integer("calls"),
    _integer("anomalies"),
    _real("severity_us"),
    # The largest table of a wide run, and nearly all key: kept once, not once more as an index.
    sqlite_with_rowid=False,
)
"""``StepCount``."""

STREAM_HEALTH = Table(
    "stream_health",
    SCHEMA,
    _run_key(),
    _key("program"),
    _key("rank"),
    _text("node"),
    _text("state"),
    _integer("steps"),
    _integer("rows"),
    _integer("size_bytes"),
    _integer("calls"),
    _integer("anomalies"),
    _integer("gap_steps"),
    Column("losses", JSON, nullable=False),
)
"""``StreamHealth``, the latest of each stream."""

METADATA = Table(
    "metadata",
    SCHEMA,
    _run_key(),
    _key("program"),
    _key("rank"),
    _key("thread"),
    Column("key", Text, primary_key=True),
    _text("value"),
)
"""``Metadata``."""

DROPPED = Table(
    "dropped",
    SCHEMA,
    _run_key(),
    Column("stream", Text, primary_key=True),
    Column("function", Text, primary_key=True),
    _integer("anomalies"),
)
"""Anomalies that a stream's spool had no room for, since the stream began."""

FUNCTION_STATISTICS = Table(
    "function_statistics",
    SCHEMA,
    Column("function_id", RowNumber, ForeignKey("functions.id"), primary_key=True, autoincrement=False),
    _integer("calls"),
    _integer("anomalies"),
    _real("severity_us"),
    _real("exclusive_mean_us"),
    _real("exclusive_stddev_us"),
    _real("exclusive_minimum_us"),
    _real("exclusive_maximum_us"),
    _real("inclusive_mean_us"),
    _real("inclusive_maximum_us"),
)
"""``FunctionStatistics``, the latest of each function."""
