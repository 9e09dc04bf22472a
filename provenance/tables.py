"""Tables of the provenance store, the same on SQLite and PostgreSQL.

A store holds any number of runs, so each row says whose it is, by a small number. Functions and texts are
numbered within their run. All times are µs since the Unix epoch on the trace's clock, as in
``chimbuko.records``. What follows from another table is not repeated: a call's node is its stream's, the
interval of its step stands with the step, its detector with the run.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = "0003"
"""Newest revision under ``migrations/versions``: what this code reads and writes."""

SCHEMA = MetaData(naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s"})

# Only a column declared INTEGER numbers its rows by itself in SQLite.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


def _small(name: str) -> Column[int]:
    """A number of 32 bits."""
    return Column(name, Integer, nullable=False)


def _integer(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _real(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _blob(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _key(name: str) -> Column[int]:
    # No table but ``calls`` and ``runs`` numbers its own rows.
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _keyed(name: str, *columns: Column[Any]) -> Table:
    """A table of short rows that stand in the order of their key, and not once more in an index."""
    return Table(name, SCHEMA, _key("run"), *columns, sqlite_with_rowid=False)


def _indexed(name: str, *columns: Column[Any]) -> Table:
    """A table of rows that may be long: in order of their key SQLite would give each a page of its own."""
    return Table(name, SCHEMA, _key("run"), *columns)


RUNS = Table(
    "runs",
    SCHEMA,
    Column("number", Integer, primary_key=True),
    _text("id"),
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
    UniqueConstraint("id"),
)
"""``RunInfo``; the store's URL is kept without its password. Other tables name a run by ``number``."""

PROGRAMS = _keyed("programs", _key("program"), _text("name"))

FUNCTIONS = _indexed("functions", _key("number"), _small("program"), _text("name"))
"""Functions of a run, numbered from 0; each stands here once."""

TEXTS = _indexed("texts", _key("number"), _text("text"))
"""Texts that a run repeats, numbered from 0: names of counters, keys and values of metadata."""

CALLS = Table(
    "calls",
    SCHEMA,
    Column("id", RowNumber, primary_key=True),
    _small("run"),
    _small("program"),
    _small("rank"),
    _small("begin_step"),
    _small("begin_row"),
    _small("revision"),
    _flag("is_final"),
    _flag("is_anomaly"),
    _flag("is_open"),
    _flag("is_gpu"),
    _small("thread"),
    _small("function"),
    _integer("entry_us"),
    _integer("inclusive_us"),
    _integer("exclusive_us"),
    _small("step"),
    _real("score"),
    _real("severity_us"),
    _real("expected_us"),
    _real("spread_us"),
    _integer("seen"),
    _integer("model_version"),
    _small("depth"),
    _small("children"),
    _small("messages_count"),
    _small("left_out"),
    _small("launch_step"),
    _small("launch_row"),
    Column("incident_id", Text),
    _blob("details"),
    UniqueConstraint("run", "program", "rank", "begin_step", "begin_row"),
    # Calls are counted by label out of this one alone.
    Index("ix_calls_rank_step", "run", "rank", "step", "is_anomaly"),
    Index("ix_calls_severity", "run", "severity_us"),
    Index("ix_calls_score", "run", "score"),
    Index("ix_calls_entry", "run", "entry_us"),
    Index("ix_calls_function", "run", "function", "is_anomaly", "severity_us"),
)
"""``CallRecord``: abnormal calls and normal ones for comparison. Program, rank, ``begin_step`` and
``begin_row`` are the call's id; while it is open its ``inclusive_us`` is its time so far. ``details`` is what
``provenance.details`` reads: stack, window, messages and counters, of one call at a time; as rows of their
own they would halve the speed of writing."""

STEPS = _keyed(
    "steps",
    _key("program"),
    _key("rank"),
    _key("step"),
    _integer("start_us"),
    _integer("end_us"),
    _integer("calls"),
    _integer("anomalies"),
    _real("severity_us"),
    _real("highest_score"),
)
"""``StepCount``."""

NODE_STATES = _indexed("node_states", _key("program"), _key("rank"), _key("step"), _blob("counters"))
"""Watched counters as they stood in a step of a rank, for steps that calls are recorded of."""

MODELS = _indexed("models", _key("function"), Column("version", BigInteger, primary_key=True), _blob("model"))
"""``FunctionModel``: the row of the detector's table, compressed with zlib."""

STREAM_HEALTH = _keyed(
    "stream_health",
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
    Column("silence", JSON(none_as_null=True)),
    _integer("largest_step_bytes"),
)
"""``StreamHealth``, the latest of each stream."""

COUNTER_STATISTICS = _keyed(
    "counter_statistics",
    _key("program"),
    _key("rank"),
    _key("counter"),
    *(_real(name) for name in ("n", "mean", "m2", "m3", "m4", "minimum", "maximum")),
)
"""``CounterStatistics``, the latest of each counter of a stream; the counter is the number of a text."""

METADATA = _keyed("metadata", _key("program"), _key("rank"), _key("thread"), _key("key"), _small("value"))
"""``Metadata``; key and value are numbers of texts, for most are the same on all ranks."""

DROPPED = _keyed(
    "dropped",
    Column("stream", Text, primary_key=True),
    Column("function", Text, primary_key=True),
    _integer("anomalies"),
)
"""Anomalies of a stream that are not recorded: too many of their function, or no room in its spool."""

FUNCTION_STATISTICS = _keyed(
    "function_statistics",
    _key("function"),
    _integer("calls"),
    _integer("anomalies"),
    _real("severity_us"),
    _real("exclusive_mean_us"),
    _real("exclusive_stddev_us"),
    _real("exclusive_minimum_us"),
    _real("exclusive_maximum_us"),
    _real("inclusive_mean_us"),
    _real("inclusive_maximum_us"),
    _real("drift"),
)
"""``FunctionStatistics``, the latest of each function."""
