"""Incidents say how sure their cost is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column."""
    op.add_column("incidents", sa.Column("bound", sa.SmallInteger(), nullable=False, server_default="0"))
