"""Layout of the first release, which ``chimbuko.provenance.store.tables`` describes and makes.

Nothing is done here: a store begins at the newest layout. Layouts with lower numbers were never released. The
next one is a module beside this one, whose name begins with its number: that stands in ``revision``, and this
one's in ``down_revision``; ``upgrade`` alters the tables by ``alembic.op``, and makes views anew.
"""

from __future__ import annotations

revision = "0018"
down_revision = None


def upgrade() -> None:
    pass
