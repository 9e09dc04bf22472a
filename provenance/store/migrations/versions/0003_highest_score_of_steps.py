"""How abnormal the worst call of each step was: unknown, so 0, of those that an earlier version stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("steps", sa.Column("highest_score", sa.Double(), nullable=False, server_default="0"))
