"""Tables, indexes and views of the provenance store, the same on SQLite and PostgreSQL.

A new store is made of what stands here. A store of an earlier release gets there by ``migrations/versions``,
so each change of a table here is a new file there.

A store holds any number of runs, so each row says whose it is, by a small number. Functions and texts are
numbered within their run. All times are µs since the Unix epoch on the trace's clock, as in
``chimbuko.core.calls.record``. What follows from another table is not repeated: a call's node is its
stream's, the interval of its step stands with the step, its detector with the run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    true,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from chimbuko.core.calls.schema import INDEXED, STORED, Field

MIGRATIONS = Path(__file__).parent / "migrations"
FIRST_RELEASE = "0018"
"""Layout of the oldest stores that can be read."""
SCHEMA_VERSION = max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*"))
"""Newest revision under ``migrations/versions``: what this code reads and writes."""

SCHEMA = MetaData(naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s"})

# Only a column declared INTEGER numbers its rows by itself in SQLite.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


def _small(name: str) -> Column[int]:
    """Return a column of numbers of 32 bits."""
    return Column(name, Integer, nullable=False)


def _integer(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _real(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _number(name: str, field: Field) -> Column[Any]:
    """Return a column of the table of calls."""
    return _OF_DTYPE[field.dtype](name)


def _blob(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


_OF_DTYPE: dict[str, Callable[[str], Column[Any]]] = {
    **dict.fromkeys(("u1", "i4"), _small),
    **dict.fromkeys(("u8", "i8"), _integer),
    "f8": _real,
    "?": _flag,
}


def _since_0018(name: str) -> Column[int]:
    """Return a column of whole numbers that older stores got with 0 in their rows."""
    return Column(name, BigInteger, nullable=False, server_default="0")


def _key(name: str) -> Column[int]:
    # No table but ``calls`` and ``runs`` numbers its own rows.
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _keyed(name: str, *columns: Column[Any]) -> Table:
    """Return a table of short rows that stand in the order of their key, and not once more in an index."""
    return Table(name, SCHEMA, _key("run"), *columns, sqlite_with_rowid=False)


def _indexed(name: str, *columns: Column[Any]) -> Table:
    """Return a table of rows that may be long: in order of the key SQLite would give each its own page."""
    return Table(name, SCHEMA, _key("run"), *columns)


ORDERS = INDEXED
"""Columns by which calls are listed."""
SPENT = ("computing_us", "mpi_us", "io_us", "gpu_us", "awaiting_us")
"""Columns of the time of threads in a step, in the order of ``TimeKind``."""
PLACES = ("function", "rank", "path", "incident_id")
"""Columns by whose value a search for calls can begin."""

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
    _text("transport"),
    Column("environment", JSON, nullable=False),
    Column("folder", Text, nullable=False, server_default=""),
    UniqueConstraint("id"),
)
"""Runs as ``RunInfo``; the store's URL is kept without its password. Other tables name a run by
``number``. Where others store their runs, too, ``folder`` is that of the run."""

PROGRAMS = _keyed("programs", _key("program"), _text("name"))

FUNCTIONS = _indexed("functions", _key("number"), _small("program"), _text("name"))
"""Functions of a run, numbered from 0; each stands here once."""

TEXTS = _indexed("texts", _key("number"), _text("text"))
"""Texts that a run repeats, numbered from 0: names of counters, keys and values of metadata."""

PATHS = _indexed(
    "paths", _key("number"), *(_small(name) for name in ("program", "parent", "function", "depth"))
)
"""Call paths of a run, numbered from 0, as a tree: the path of the caller, -1 for none, and the function
that it calls. A path stands here once, however many calls have it, and its parents have smaller numbers."""

CALLS = Table(
    "calls",
    SCHEMA,
    Column("id", RowNumber, primary_key=True),
    _small("run"),
    *(_number(name, field) for name, field in STORED.items()),
    Column("incident_id", Text),
    _blob("details"),
    UniqueConstraint("run", "program", "rank", "begin_step", "begin_row"),
    # One index for each order of a list, and one for each column by which a search begins
    # (``query.planner``).
    *(Index(f"ix_calls_{name}", "run", "is_anomaly", name) for name in ORDERS),
    *(Index(f"ix_calls_{name}", "run", name, "is_anomaly", "severity_us") for name in PLACES),
    # Indexes of few calls, see ``_PARTIAL`` below.
    *(Index(f"ix_calls_{name}", "run", "severity_us") for name in ("gpu", "open")),
    Index("ix_calls_relabelled", "run", "program", "rank"),
)
"""Calls as ``CallRecord``: abnormal ones, and normal ones for comparison. Program, rank, ``begin_step`` and
``begin_row`` are the call's id; while it is open its ``inclusive_us`` is its time so far. ``path`` is -1
where it is not known, ``launch_thread`` where nothing launched the call. ``details`` is what
``store.decode`` reads: stack, window, messages and counters, of one call at a time; as rows of their own
these would halve the speed of writing."""

_PARTIAL = {
    "ix_calls_gpu": CALLS.c.is_gpu == true(),
    "ix_calls_open": CALLS.c.is_open == true(),
    "ix_calls_relabelled": CALLS.c.is_relabelled == true(),
    "ix_calls_incident_id": CALLS.c.incident_id.is_not(None),
}
"""Conditions of indexes that hold few calls: most runs have no such calls, so that the index costs nothing.

SQLAlchemy's ``Index`` would take a condition only with all it knows of PostgreSQL, 55 ms of each run."""

INCIDENTS = Table(
    "incidents",
    SCHEMA,
    _key("run"),
    _key("number"),
    _small("merged_into"),
    _flag("is_gone"),
    _small("program"),
    _text("kind"),
    _small("rank"),
    _small("function"),
    _text("call"),
    *(_integer(name) for name in ("begin_us", "end_us", "flags", "ranks")),
    _real("cost_us"),
    _text("sentence"),
    _blob("details"),
    Column("bound", SmallInteger, nullable=False, server_default="0"),
    *(Index(f"ix_incidents_{name}", "run", name) for name in ("cost_us", "begin_us")),
)
"""Incidents: delays, each with all that was flagged because of it, numbered from 1. ``rank`` and ``function``
are -1 where the origin is not known; ``call``, the id of the origin, is empty then. An incident that became
part of another names that in ``merged_into``, which is 0 otherwise; one that ``is_gone`` has no flagged call
left. ``details`` is the ``Incident`` as JSON, compressed with zlib. ``bound`` is the place among
``Bound`` of that of the cost."""

RECURRENCES = _indexed(
    "recurrences",
    _key("number"),
    _small("program"),
    _text("kind"),
    _small("function"),
    *(_integer(name) for name in ("calls", "begin_us", "end_us")),
    _real("cost_us"),
    _text("sentence"),
    _blob("details"),
)
"""Recurring findings: what cost time again and again, numbered from 1; ``function`` is -1 where it is not one
alone."""

MARKS = _keyed(
    "marks",
    Column("finding", Text, primary_key=True),
    *(_text(name) for name in ("state", "note", "author")),
    _integer("marked_us"),
)
"""Marks as ``Mark``, of incidents and recurring findings by their ids, which stay when all are found anew."""

METRIC_FINDINGS = _indexed(
    "metric_findings",
    _key("number"),
    _text("kind"),
    _text("quantity"),
    *(_integer(name) for name in ("begin_us", "found_us")),
    _text("sentence"),
    _blob("details"),
)
"""Findings in quantities that programs publish, numbered from 1. Times are those of the publications.

``details`` is the ``Finding`` as JSON, compressed with zlib."""

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
    *map(_since_0018, SPENT),
)
"""Steps as ``StepCount``."""

NEVER_US = 1 << 62
"""Value in place of the first time of what has none."""
ALL_RANKS = -1
"""Number in place of the rank in ``step_levels`` for sums over all ranks."""

STEP_LEVELS = _keyed(
    "step_levels",
    _key("level"),
    _key("program"),
    _key("rank"),
    _key("bucket"),
    _integer("steps"),
    _integer("start_us"),
    _integer("end_us"),
    _integer("calls"),
    _integer("anomalies"),
    _real("severity_us"),
    _real("highest_score"),
    _integer("most_anomalies"),
    _integer("peaks"),
    _real("highest_lost_us"),
    _integer("lost_peaks"),
    *map(_since_0018, SPENT),
)
"""Sums over 8 ** ``level`` steps of a rank, from step ``bucket * 8 ** level`` on, once a later bucket has
begun; and over all ranks of a program, from level 0 on (``provenance.write.stepwriter``). ``most_anomalies``
is the largest number that one rank had in one step. ``peaks`` has a byte for each eighth of a rank's bucket,
the first one lowest: 0 where no step of it was analysed, else one more than the most anomalies that one of
its steps had, up to 254; over all ranks it is 0. So a row holds eight cells of a map of ranks over steps.
``highest_lost_us`` and ``lost_peaks`` are the same of the time that one rank lost in one step, which
``lost_peaks`` has as ``coarserlevels.lost_code``."""

STEP_HISTOGRAMS = _keyed(
    "step_histograms",
    _key("program"),
    _key("rank"),
    Column("anomalies", BigInteger, primary_key=True, autoincrement=False),
    _integer("steps"),
    _real("severity_us"),
    _integer("last_step"),
)
"""Histograms of the anomalies per step of each rank, with the last step of each number; ranks are compared by
them."""


def _totals(name: str, *keys: Column[Any]) -> Table:
    """Return a table of sums over recorded calls with something in common (``provenance.write.rollups``)."""
    return _keyed(
        name,
        *keys,
        _integer("anomalies"),
        _integer("normal_calls"),
        _real("severity_us"),
        _real("highest_severity_us"),
        _real("highest_score"),
        _integer("first_us"),
        _integer("last_us"),
    )


FUNCTION_TOTALS = _totals("function_totals", _key("function"))
RANK_TOTALS = _totals("rank_totals", _key("program"), _key("rank"))
PATH_TOTALS = _totals("path_totals", _key("path"))
STEP_TOTALS = _totals("step_totals", _key("step"))
"""Sums by the step in which calls ended, over all ranks."""
TIME_TOTALS = _totals("time_totals", _key("level"), Column("bucket", BigInteger, primary_key=True))
"""Sums by the time of entry: by the second since the epoch, or by 64 seconds where ``level`` is 1."""

NODE_SAMPLES = _indexed(
    "node_samples",
    Column("node", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    _integer("begin_us"),
    _integer("end_us"),
    _flag("is_sum"),
    _blob("rows"),
)
"""Samples of nodes: each a ``NodeBatch`` as msgpack, compressed with zlib. Those that are no sums are from
around flagged calls."""

NODE_STATES = _indexed("node_states", _key("program"), _key("rank"), _key("step"), _blob("counters"))
"""Watched counters as they stood in a step of a rank, for steps with recorded calls."""

MODELS = _indexed("models", _key("function"), Column("version", BigInteger, primary_key=True), _blob("model"))
"""Models as ``FunctionModel``: the row of the detector's table, compressed with zlib."""

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
    _integer("open_calls"),
    Column("source", JSON(none_as_null=True)),
    _small("threads"),
    _integer("thread_us"),
    _integer("gap_us"),
    _integer("gpu_us"),
)
"""Latest ``StreamHealth`` of each stream."""

COUNTER_STATISTICS = _keyed(
    "counter_statistics",
    _key("program"),
    _key("rank"),
    _key("counter"),
    *(_real(name) for name in ("n", "mean", "m2", "m3", "m4", "minimum", "maximum")),
)
"""Latest ``CounterStatistics`` of each counter of a stream; the counter is the number of a text."""

METADATA = _keyed("metadata", _key("program"), _key("rank"), _key("thread"), _key("key"), _small("value"))
"""Attributes as ``Metadata``; key and value are numbers of texts, as most are the same on all ranks."""

DROPPED = _keyed(
    "dropped",
    Column("stream", Text, primary_key=True),
    Column("function", Text, primary_key=True),
    _integer("anomalies"),
)
"""Anomalies of a stream that are not recorded: too many of their function, or no room in its spool."""

PRUNINGS = _keyed(
    "prunings",
    _key("number"),
    _key("function"),
    _integer("pruned_us"),
    _text("rule"),
    _integer("anomalies"),
    _integer("normal_calls"),
    _real("severity_us"),
)
"""Prunings: what was removed of a run afterwards, by function; each pruning has a number, counted from 0."""

PATH_STATISTICS = _keyed(
    "path_statistics",
    _key("path"),
    _integer("calls"),
    *(
        _real(f"{metric}_{name}_us")
        for metric in ("exclusive", "inclusive")
        for name in ("mean", "stddev", "minimum", "maximum")
    ),
    _integer("begun"),
    _real("spent_us"),
    _real("looked_us"),
    _real("asleep_us"),
)
"""Latest ``PathStatistics`` of each call path."""

RANK_PATHS = _indexed("rank_paths", _key("program"), _key("rank"), _integer("calls"), _blob("paths"))
"""Call paths of each rank whose stream has ended, as ``PathTimes``: the number of calls, and ``RANK_PATH``
rows of ``store.numbering``, compressed with zlib."""

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
    _integer("flagged_steps"),
    *(_real(f"flagged_{power}") for power in ("squares", "cubes", "fourths")),
    _integer("fewest_flagged"),
    _integer("most_flagged"),
)
"""Latest ``FunctionStatistics`` of each function."""


_VIEW = """
CREATE VIEW {name} AS
SELECT
  r.id AS run_id,
  CAST(c.program AS TEXT) || ':' || CAST(c.rank AS TEXT) || ':' || CAST(c.begin_step AS TEXT)
    || ':' || CAST(c.begin_row AS TEXT) AS call,
  c.program, c.rank, h.node, c.thread, c.step, f.name AS function, c.path, c.entry_us,
  CASE WHEN c.is_open THEN NULL ELSE c.entry_us + c.inclusive_us END AS exit_us,
  c.inclusive_us, c.exclusive_us, c.severity_us, c.score, c.expected_us, c.spread_us, c.seen,
  c.depth, c.children, c.messages_count, c.is_open, c.is_gpu, c.incident_id, c.is_relabelled
FROM calls AS c
JOIN runs AS r ON r.number = c.run
JOIN functions AS f ON f.run = c.run AND f.number = c.function
LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank
WHERE {condition}"""
VIEWS = {
    "anomalies": _VIEW.format(name="anomalies", condition="c.is_anomaly"),
    "normal_calls": _VIEW.format(name="normal_calls", condition="NOT c.is_anomaly"),
}
"""Views of calls with names in place of numbers, for whoever writes SQL: each with its statement."""


def make_tables(connection: Connection) -> None:
    """Make all tables, indexes and views of a store that has none of them."""
    dialect = connection.dialect
    bare = {"include_table": False, "literal_binds": True}
    for table in SCHEMA.tables.values():
        connection.exec_driver_sql(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda one: str(one.name)):
            statement = str(CreateIndex(index).compile(dialect=dialect))
            if (condition := _PARTIAL.get(str(index.name))) is not None:
                statement += f" WHERE {condition.compile(dialect=dialect, compile_kwargs=bare)}"
            connection.exec_driver_sql(statement)
    for view in VIEWS.values():
        connection.exec_driver_sql(view)
    # The table by which Alembic knows the version, as it makes it itself.
    connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{SCHEMA_VERSION}')")
