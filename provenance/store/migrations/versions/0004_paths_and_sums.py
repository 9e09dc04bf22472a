"""Call paths, sums that are kept current, and indexes for each order and place of a list of calls.

Calls that an earlier version stored have no path; their sums are made here.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

OLD_INDEXES = ("entry", "function", "rank_step", "score", "severity")
ORDERS = ("severity_us", "score", "entry_us", "exclusive_us", "inclusive_us", "step")
PLACES = ("function", "rank", "path")
SECOND_US, MINUTE_US = 1_000_000, 64_000_000
TOTALS = {
    "function_totals": ("function", "function"),
    "rank_totals": ("program, rank", "program, rank"),
    "path_totals": ("path", "path"),
    "step_totals": ("step", "step"),
    "time_totals": ("level, bucket", ""),
}
"""Table, its key after the run, and the same as columns of calls."""
NO_TIME_US = 1 << 62
LEVELS = range(5)
TIMES = [
    f"{metric}_{name}_us"
    for metric in ("exclusive", "inclusive")
    for name in ("mean", "stddev", "minimum", "maximum")
]


def upgrade() -> None:
    op.add_column("runs", sa.Column("environment", sa.JSON(), nullable=False, server_default="{}"))
    for name in ("path", "launch_thread"):
        op.add_column("calls", sa.Column(name, sa.Integer(), nullable=False, server_default="-1"))
    make_indexes()
    make_tables()
    make_totals()
    make_step_sums()
    make_views()


def make_indexes() -> None:
    for name in OLD_INDEXES:
        op.drop_index(f"ix_calls_{name}", "calls")
    for name in ORDERS:
        op.create_index(f"ix_calls_{name}", "calls", ["run", "is_anomaly", name])
    for name in PLACES:
        op.create_index(f"ix_calls_{name}", "calls", ["run", name, "is_anomaly", "severity_us"])
    for name in ("gpu", "open"):
        # As the condition of a query is written, or SQLite does not recognise it.
        op.create_index(
            f"ix_calls_{name}",
            "calls",
            ["run", "severity_us"],
            sqlite_where=sa.text(f"is_{name} = 1"),
            postgresql_where=sa.text(f"is_{name}"),
        )


def make_tables() -> None:
    make_table("paths", integers("number"), integers("program", "parent", "function", "depth"), is_long=True)
    counts = [
        *big_integers("steps", "start_us", "end_us", "calls", "anomalies"),
        *reals("severity_us", "highest_score"),
    ]
    make_table("step_levels", integers("level", "program", "rank", "bucket"), counts)
    make_table(
        "step_histograms",
        [*integers("program", "rank"), *big_integers("anomalies")],
        [*big_integers("steps"), *reals("severity_us"), *big_integers("last_step")],
    )
    keys = {
        "function_totals": integers("function"),
        "rank_totals": integers("program", "rank"),
        "path_totals": integers("path"),
        "step_totals": integers("step"),
        "time_totals": [*integers("level"), *big_integers("bucket")],
    }
    for name, key in keys.items():
        make_table(
            name,
            key,
            [
                *big_integers("anomalies", "normal_calls"),
                *reals("severity_us", "highest_severity_us", "highest_score"),
                *big_integers("first_us", "last_us"),
            ],
        )
    make_table(
        "prunings",
        integers("number", "function"),
        [
            *big_integers("pruned_us"),
            sa.Column("rule", sa.Text(), nullable=False),
            *big_integers("anomalies", "normal_calls"),
            *reals("severity_us"),
        ],
    )
    make_table("path_statistics", integers("path"), [*big_integers("calls"), *reals(*TIMES)])


def make_table(
    name: str, key: list[sa.Column[Any]], others: list[sa.Column[Any]], is_long: bool = False
) -> None:
    key = [*integers("run"), *key]
    op.create_table(
        name,
        *key,
        *others,
        sa.PrimaryKeyConstraint(*(column.name for column in key), name=f"pk_{name}"),
        sqlite_with_rowid=is_long,
    )


def integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in names]


def big_integers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False) for name in names]


def reals(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double(), nullable=False) for name in names]


def make_totals() -> None:
    def of_anomalies(value: str, otherwise: str) -> str:
        return f"CASE WHEN is_anomaly THEN {value} ELSE {otherwise} END"

    sums = (
        f"SUM({of_anomalies('1', '0')}), SUM({of_anomalies('0', '1')}), "
        f"SUM({of_anomalies('severity_us', '0.0')}), MAX({of_anomalies('severity_us', '0.0')}), "
        f"MAX({of_anomalies('score', '0.0')}), MIN({of_anomalies('entry_us', str(NO_TIME_US))}), "
        f"MAX({of_anomalies('entry_us', '0')})"
    )
    names = "anomalies, normal_calls, severity_us, highest_severity_us, highest_score, first_us, last_us"
    for table, (key, columns) in TOTALS.items():
        groups = [columns] if columns else [f"entry_us / {SECOND_US}", f"entry_us / {MINUTE_US}"]
        for level, group in enumerate(groups):
            value = group if columns else f"{level}, {group}"
            op.execute(
                f"INSERT INTO {table} (run, {key}, {names}) "
                f"SELECT run, {value}, {sums} FROM calls GROUP BY run, {group}"
            )


def make_step_sums() -> None:
    op.execute(
        "INSERT INTO step_histograms (run, program, rank, anomalies, steps, severity_us, last_step) "
        "SELECT run, program, rank, anomalies, COUNT(*), SUM(severity_us), MAX(step) FROM steps "
        "GROUP BY run, program, rank, anomalies"
    )
    names = "steps, start_us, end_us, calls, anomalies, severity_us, highest_score"
    sums = (
        f"COUNT(*), COALESCE(MIN(NULLIF(start_us, 0)), {NO_TIME_US}), MAX(end_us), SUM(calls), "
        "SUM(anomalies), SUM(severity_us), MAX(highest_score)"
    )
    newest = "SELECT run, program, rank, MAX(step) AS newest FROM steps GROUP BY run, program, rank"
    for level in LEVELS:
        bucket = f"step / {8**level}"
        into = f"INSERT INTO step_levels (run, level, program, rank, bucket, {names}) "
        op.execute(
            f"{into} SELECT run, {level}, program, -1, {bucket}, {sums} FROM steps "
            f"GROUP BY run, program, {bucket}"
        )
        if level:
            op.execute(
                f"{into} SELECT s.run, {level}, s.program, s.rank, {bucket}, {sums} FROM steps AS s "
                f"JOIN ({newest}) AS n ON n.run = s.run AND n.program = s.program AND n.rank = s.rank "
                f"WHERE {bucket} < newest / {8**level} GROUP BY s.run, s.program, s.rank, {bucket}"
            )


def make_views() -> None:
    """What people ask for: names in place of numbers."""
    for view, condition in (("anomalies", "c.is_anomaly"), ("normal_calls", "NOT c.is_anomaly")):
        op.execute(
            f"CREATE VIEW {view} AS SELECT r.id AS run_id, "
            "CAST(c.program AS TEXT) || ':' || CAST(c.rank AS TEXT) || ':' || CAST(c.begin_step AS TEXT) "
            "|| ':' || CAST(c.begin_row AS TEXT) AS call, "
            "c.program, c.rank, h.node, c.thread, c.step, f.name AS function, c.path, c.entry_us, "
            "CASE WHEN c.is_open THEN NULL ELSE c.entry_us + c.inclusive_us END AS exit_us, "
            "c.inclusive_us, c.exclusive_us, c.severity_us, c.score, c.expected_us, c.spread_us, c.seen, "
            "c.depth, c.children, c.messages_count, c.is_open, c.is_gpu "
            "FROM calls AS c JOIN runs AS r ON r.number = c.run "
            "JOIN functions AS f ON f.run = c.run AND f.number = c.function "
            "LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank "
            f"WHERE {condition}"
        )
