"""Runs the migrations on the connection that ``chimbuko.provenance.store.engine`` hands over."""

from __future__ import annotations

from alembic import context

from chimbuko.provenance.store.tables import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SCHEMA,
    # The table of the version holds one row.
    version_table_pk=False,
)
context.run_migrations()
