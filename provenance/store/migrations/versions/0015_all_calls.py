"""Call paths count all calls and all time, and streams the time of their threads; earlier stores did not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("path_statistics", sa.Column("begun", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("path_statistics", sa.Column("spent_us", sa.Double(), nullable=False, server_default="0"))
    op.add_column("stream_health", sa.Column("threads", sa.Integer(), nullable=False, server_default="0"))
    for name in ("thread_us", "gap_us", "gpu_us"):
        op.add_column("stream_health", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
