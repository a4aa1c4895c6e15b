"""Runs migrations on the connection that sqlcache.store._sql.upgrade hands over.

That connection is within a transaction, which the caller ends: all steps take effect together.
"""

from __future__ import annotations

from alembic import context

from sqlcache.store._sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
context.run_migrations()
