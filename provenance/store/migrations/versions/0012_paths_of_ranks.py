"""What calls took by call path on each rank; runs stored before have nothing of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "rank_paths",
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("program", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("paths", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run", "program", "rank", name="pk_rank_paths"),
    )
