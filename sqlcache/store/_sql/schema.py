"""The tables, as SQLAlchemy metadata. Migrations make them; this is what they must amount to.

    resource 1-* scope 1-* object     scope: a namespace, or where index values are filed
    scope 1-* label *-1 label_key     label: one (scope, key, value), however many objects have it
    label 1-* posting *-1 object
    resource 1-* dictionary 1-* object

- `n` columns count members, so selectivity and cardinality cost nothing; a row goes at 0.
- `object.terms` lists the ids of the object's labels and index values in the order in which they
  were written, and `object.digest` hashes their texts in that order: equal digests mean that
  nothing needs to be compared, and a difference is worked out without reading postings.
- Where the process keeps the objects itself, `object` is empty: what an object was indexed under
  lies beside it (shelf).
- `object.body` is JSON, or a zstd frame of `plain_bytes` of JSON if `dictionary_id` is there.
- `dictionary.id` is the one in its header; its `version` is that of the write that brought it, its
  `ratio` the share that was left of the objects that it was trained on. A dictionary goes when no
  object needs it and a newer one is there.
- `resource.source` says where the content comes from, while it is all that was there at
  `resource_version`: only then may a watch go on from there.
- `resource.label_keys` tells which label keys have complete postings (label_keys); NULL: all.
  `label_key.n` counts the objects that carry a key, indexed or not. `label_count.n` is the number
  of a key's labels in a resource, kept while its policy has a limit on that.
- `object.version` grows with every write of the database: what a decoded copy is checked against.
- `resource.version` grows by one with every write of the resource's objects: what the process makes
  of all of them is checked against it.
- Foreign keys are not enforced: the writer knows both ends, and each check is a look-up.
- The `label` table has its only index as its primary key: one more, for all namespaces, would cost
  a third of the whole label index and save one look-up for each namespace.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

# SQLite makes ids only for a column declared INTEGER; other databases need the room.
_Id = BigInteger().with_variant(Integer, "sqlite")

RESOURCE = Table(
    "resource",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("resource_version", Text, nullable=False),
    Column("version", _Id, nullable=False, server_default="0"),
    Column("source", Text),
    Column("label_keys", Text),
)

SCOPE = Table(
    "scope",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("resource_id", _Id, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("n", _Id, nullable=False),
    UniqueConstraint("resource_id", "kind", "namespace", name="scope_by_name"),
)

OBJECT = Table(
    "object",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("resource_id", _Id, nullable=False),
    Column("scope_id", _Id, nullable=False),
    Column("key", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("resource_version", Text, nullable=False),
    Column("version", _Id, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("terms", LargeBinary, nullable=False),
    Column("body", LargeBinary),
    Column("dictionary_id", _Id),
    Column("plain_bytes", _Id),
    UniqueConstraint("resource_id", "key", name="object_by_key"),
    Index("object_by_scope", "scope_id"),
)

LABEL_KEY = Table(
    "label_key",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("n", _Id, nullable=False),
)

LABEL = Table(
    "label",
    METADATA,
    Column("scope_id", _Id, primary_key=True, autoincrement=False),
    Column("key_id", _Id, primary_key=True, autoincrement=False),
    Column("value", Text, primary_key=True),
    Column("id", _Id, nullable=False),
    Column("n", _Id, nullable=False),
    sqlite_with_rowid=False,
)

POSTING = Table(
    "posting",
    METADATA,
    Column("label_id", _Id, primary_key=True, autoincrement=False),
    Column("object_id", _Id, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

LABEL_COUNT = Table(
    "label_count",
    METADATA,
    Column("resource_id", _Id, primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    Column("n", _Id, nullable=False),
    sqlite_with_rowid=False,
)

SEQUENCE = Table(
    "sequence",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", _Id, nullable=False),
    sqlite_with_rowid=False,
)

DICTIONARY = Table(
    "dictionary",
    METADATA,
    Column("resource_id", _Id, primary_key=True, autoincrement=False),
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("version", _Id, nullable=False),
    Column("ratio", Float, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
