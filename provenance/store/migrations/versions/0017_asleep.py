"""Call paths know for how long looks found them, and how much of that their threads slept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the columns."""
    for name in ("looked_us", "asleep_us"):
        op.add_column("path_statistics", sa.Column(name, sa.Double(), nullable=False, server_default="0"))
