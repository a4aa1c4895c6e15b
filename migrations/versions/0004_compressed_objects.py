"""Compressed objects, and the dictionaries that they need.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sqlcache.store._sql import dictionaries

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add them; what is there stays as it is."""
    op.create_table(
        "dictionary",
        sa.Column("resource_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("version", _ID, nullable=False),
        sa.Column("ratio", sa.Float, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.add_column("object", sa.Column("dictionary_id", _ID))
    op.add_column("object", sa.Column("plain_bytes", _ID))


def downgrade() -> None:
    """Decompress all objects, for older releases cannot."""
    dictionaries.decompress_all(op.get_bind())
    op.drop_column("object", "plain_bytes")
    op.drop_column("object", "dictionary_id")
    op.drop_table("dictionary")
