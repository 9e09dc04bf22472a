"""How a run's trace came to its readers; of runs that an earlier version stored, nobody knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("runs", sa.Column("transport", sa.Text(), nullable=False, server_default=""))
