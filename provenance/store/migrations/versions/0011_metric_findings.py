"""What was wrong with quantities that programs publish; runs stored before have nothing of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "metric_findings",
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Text(), nullable=False),
        sa.Column("begin_us", sa.BigInteger(), nullable=False),
        sa.Column("found_us", sa.BigInteger(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name="pk_metric_findings"),
    )
