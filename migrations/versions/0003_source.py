"""Where the content of a resource comes from, so that its watch can be resumed.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Note it for each resource; of what is there nobody knows."""
    op.add_column("resource", sa.Column("source", sa.Text))


def downgrade() -> None:
    """Forget it."""
    op.drop_column("resource", "source")
