"""Steps have the time of threads by what they did; findings can be marked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the columns, and the table."""
    for table in ("steps", "step_levels"):
        for name in ("computing_us", "mpi_us", "io_us", "gpu_us", "awaiting_us"):
            op.add_column(table, sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "marks",
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("state", "note", "author")),
        sa.Column("marked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run", "finding", name="pk_marks"),
        sqlite_with_rowid=False,
    )
