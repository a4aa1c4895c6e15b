"""Where the content of a resource comes from, so that its watch can be resumed.

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


def upgrade() -> None:
    """Note it for each resource; of what is there nobody knows."""
    op.add_column("resource", sa.Column("source", sa.Text))


def downgrade() -> None:
    """Forget it."""
    op.drop_column("resource", "source")
