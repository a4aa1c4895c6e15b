"""Which label keys are indexed.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_EMPTY_THE_BOUNDED = """
DELETE FROM posting WHERE label_id IN
    (SELECT l.id FROM resource r JOIN scope s ON s.resource_id = r.id
     JOIN label l ON l.scope_id = s.id WHERE r.label_keys IS NOT NULL);
DELETE FROM label WHERE scope_id IN
    (SELECT s.id FROM resource r JOIN scope s ON s.resource_id = r.id
     WHERE r.label_keys IS NOT NULL);
DELETE FROM object WHERE resource_id IN (SELECT id FROM resource WHERE label_keys IS NOT NULL);
DELETE FROM scope WHERE resource_id IN (SELECT id FROM resource WHERE label_keys IS NOT NULL);
UPDATE label_key SET n = (SELECT ifnull(sum(n), 0) FROM label WHERE key_id = label_key.id);
DELETE FROM label_key WHERE n = 0;
UPDATE resource SET resource_version = '', source = NULL, version = version + 1
    WHERE label_keys IS NOT NULL
"""


def upgrade() -> None:
    """Note it for each resource; so far, all are."""
    op.add_column("resource", sa.Column("label_keys", sa.Text))
    op.create_table(
        "label_count",
        sa.Column("resource_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("n", _ID, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Forget it. Without it an index that lacks keys gives wrong answers, so its content goes."""
    for statement in _EMPTY_THE_BOUNDED.split(";"):
        op.execute(statement)
    op.drop_table("label_count")
    op.drop_column("resource", "label_keys")
