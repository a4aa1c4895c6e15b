"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the schema to this version."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Take the schema back to the version before."""
    ${downgrades if downgrades else "pass"}
