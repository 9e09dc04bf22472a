"""Census of each stream: the calls that are open, and how many what recorded it saw."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    open_calls = sa.Column("open_calls", sa.BigInteger(), nullable=False, server_default="0")
    for column in (open_calls, sa.Column("source", sa.JSON(none_as_null=True))):
        op.add_column("stream_health", column)
