"""Call paths count all calls and all time, also of first and open calls; earlier stores do not know them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add both columns."""
    op.add_column("path_statistics", sa.Column("begun", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("path_statistics", sa.Column("spent_us", sa.Double(), nullable=False, server_default="0"))
