"""Incidents, what recurs, and calls by the incident that they belong to; runs stored before have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "incidents",
        *small("run", "number", "merged_into"),
        sa.Column("is_gone", sa.Boolean(), nullable=False),
        *small("program"),
        text("kind"),
        *small("rank", "function"),
        text("call"),
        *large("begin_us", "end_us", "flags", "ranks"),
        sa.Column("cost_us", sa.Double(), nullable=False),
        text("sentence"),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name="pk_incidents"),
    )
    for name in ("cost_us", "begin_us"):
        op.create_index(f"ix_incidents_{name}", "incidents", ["run", name])
    op.create_table(
        "recurrences",
        *small("run", "number", "program"),
        text("kind"),
        *small("function"),
        *large("calls", "begin_us", "end_us"),
        sa.Column("cost_us", sa.Double(), nullable=False),
        text("sentence"),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name="pk_recurrences"),
    )
    op.execute("UPDATE calls SET incident_id = NULL WHERE incident_id = ''")
    op.create_index(
        "ix_calls_incident_id",
        "calls",
        ["run", "incident_id", "is_anomaly", "severity_us"],
        sqlite_where=sa.text("incident_id IS NOT NULL"),
        postgresql_where=sa.text("incident_id IS NOT NULL"),
    )
    make_views()


def small(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in names]


def large(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def make_views() -> None:
    for view, condition in (("anomalies", "c.is_anomaly"), ("normal_calls", "NOT c.is_anomaly")):
        op.execute(f"DROP VIEW {view}")
        op.execute(
            f"CREATE VIEW {view} AS SELECT r.id AS run_id, "
            "CAST(c.program AS TEXT) || ':' || CAST(c.rank AS TEXT) || ':' || CAST(c.begin_step AS TEXT) "
            "|| ':' || CAST(c.begin_row AS TEXT) AS call, "
            "c.program, c.rank, h.node, c.thread, c.step, f.name AS function, c.path, c.entry_us, "
            "CASE WHEN c.is_open THEN NULL ELSE c.entry_us + c.inclusive_us END AS exit_us, "
            "c.inclusive_us, c.exclusive_us, c.severity_us, c.score, c.expected_us, c.spread_us, c.seen, "
            "c.depth, c.children, c.messages_count, c.is_open, c.is_gpu, c.incident_id "
            "FROM calls AS c JOIN runs AS r ON r.number = c.run "
            "JOIN functions AS f ON f.run = c.run AND f.number = c.function "
            "LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank "
            f"WHERE {condition}"
        )
