"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "dropped",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("function", sa.Text(), nullable=False),
        sa.Column("anomalies", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "stream", "function", name="pk_dropped"),
    )
    op.create_table(
        "functions",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_functions"),
        sa.UniqueConstraint("run_id", "program", "name", name="uq_functions"),
    )
    op.create_table(
        "metadata",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("thread", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "program", "rank", "thread", "key", name="pk_metadata"),
    )
    op.create_table(
        "programs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "program", name="pk_programs"),
    )
    op.create_table(
        "runs",
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
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("anomalies", sa.BigInteger(), nullable=False),
        sa.Column("severity_us", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "program", "rank", "step", name="pk_steps"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stream_health",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("anomalies", sa.BigInteger(), nullable=False),
        sa.Column("gap_steps", sa.BigInteger(), nullable=False),
        sa.Column("losses", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "program", "rank", name="pk_stream_health"),
    )
    op.create_table(
        "calls",
        sa.Column("id", ROW_NUMBER, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("program", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("thread", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("function_id", ROW_NUMBER, nullable=False),
        sa.Column("entry_us", sa.BigInteger(), nullable=False),
        sa.Column("exit_us", sa.BigInteger(), nullable=False),
        sa.Column("inclusive_us", sa.BigInteger(), nullable=False),
        sa.Column("exclusive_us", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("step_start_us", sa.BigInteger(), nullable=False),
        sa.Column("step_end_us", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("severity_us", sa.Double(), nullable=False),
        sa.Column("expected_us", sa.Double(), nullable=False),
        sa.Column("spread_us", sa.Double(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("detector", sa.Text(), nullable=False),
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("depth", sa.BigInteger(), nullable=False),
        sa.Column("children", sa.BigInteger(), nullable=False),
        sa.Column("messages_count", sa.BigInteger(), nullable=False),
        sa.Column("left_out", sa.BigInteger(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["function_id"], ["functions.id"], name="fk_calls_functions"),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
        sa.UniqueConstraint("run_id", "event_id", name="uq_calls"),
    )
    op.create_index("ix_calls_entry", "calls", ["run_id", "entry_us"])
    op.create_index("ix_calls_function", "calls", ["function_id", "label", "severity_us"])
    op.create_index("ix_calls_label", "calls", ["run_id", "label"])
    op.create_index("ix_calls_rank_step", "calls", ["run_id", "rank", "step"])
    op.create_index("ix_calls_score", "calls", ["run_id", "score"])
    op.create_index("ix_calls_severity", "calls", ["run_id", "severity_us"])
    op.create_table(
        "function_statistics",
        sa.Column("function_id", ROW_NUMBER, autoincrement=False, nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("anomalies", sa.BigInteger(), nullable=False),
        sa.Column("severity_us", sa.Double(), nullable=False),
        sa.Column("exclusive_mean_us", sa.Double(), nullable=False),
        sa.Column("exclusive_stddev_us", sa.Double(), nullable=False),
        sa.Column("exclusive_minimum_us", sa.Double(), nullable=False),
        sa.Column("exclusive_maximum_us", sa.Double(), nullable=False),
        sa.Column("inclusive_mean_us", sa.Double(), nullable=False),
        sa.Column("inclusive_maximum_us", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["function_id"], ["functions.id"], name="fk_function_statistics_functions"),
        sa.PrimaryKeyConstraint("function_id", name="pk_function_statistics"),
    )
