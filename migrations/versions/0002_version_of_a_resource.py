"""A version of each resource, which grows with every write of its objects.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the column."""
    op.add_column("resource", sa.Column("version", _ID, nullable=False, server_default="0"))


def downgrade() -> None:
    """Take it away."""
    with op.batch_alter_table("resource") as resource:
        resource.drop_column("version")
