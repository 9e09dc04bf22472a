"""Runs name their folder, from which alone their rows are deleted; earlier stores did not know it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column."""
    op.add_column("runs", sa.Column("folder", sa.Text(), nullable=False, server_default=""))
