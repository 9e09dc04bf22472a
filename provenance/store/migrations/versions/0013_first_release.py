"""Layout of the first release, which ``chimbuko.provenance.store.tables`` describes and makes.

Nothing is done here: a store begins at the newest layout. Layouts with lower numbers were never released.
"""

from __future__ import annotations

revision = "0013"
down_revision = None


def upgrade() -> None:
    pass
