"""Objects, and their labels as postings.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "resource",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("resource_version", sa.Text, nullable=False),
    )
    op.create_table(
        "scope",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("resource_id", _ID, nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("n", _ID, nullable=False),
        sa.UniqueConstraint("resource_id", "kind", "namespace", name="scope_by_name"),
    )
    op.create_table(
        "object",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("resource_id", _ID, nullable=False),
        sa.Column("scope_id", _ID, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("resource_version", sa.Text, nullable=False),
        sa.Column("version", _ID, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary),
        sa.UniqueConstraint("resource_id", "key", name="object_by_key"),
    )
    op.create_index("object_by_scope", "object", ["scope_id"])
    op.create_table(
        "label_key",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("n", _ID, nullable=False),
    )
    op.create_table(
        "label",
        sa.Column("scope_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("key_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("id", _ID, nullable=False),
        sa.Column("n", _ID, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "posting",
        sa.Column("label_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("object_id", _ID, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sequence",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", _ID, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop all tables: a cache can be filled again."""
    for table in ("sequence", "posting", "label", "label_key", "object", "scope", "resource"):
        op.drop_table(table)
