"""Samples of nodes; runs stored before have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "node_samples",
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("begin_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("is_sum", sa.Boolean(), nullable=False),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "node", "sequence", name="pk_node_samples"),
    )
