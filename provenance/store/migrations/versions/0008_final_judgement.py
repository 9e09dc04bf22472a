"""Whether the final judgement changed a call's label; of runs stored before, none is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column(
        "calls", sa.Column("is_relabelled", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.create_index(
        "ix_calls_relabelled",
        "calls",
        ["run", "program", "rank"],
        sqlite_where=sa.text("is_relabelled"),
        postgresql_where=sa.text("is_relabelled"),
    )
    make_views()


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
            "c.depth, c.children, c.messages_count, c.is_open, c.is_gpu, c.incident_id, c.is_relabelled "
            "FROM calls AS c JOIN runs AS r ON r.number = c.run "
            "JOIN functions AS f ON f.run = c.run AND f.number = c.function "
            "LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank "
            f"WHERE {condition}"
        )
