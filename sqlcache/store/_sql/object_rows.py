"""Rows of the `object` table: a batch's new, changed and removed ones as columns of one row.

JSON carries no bytes: all bytes of a batch go in one column, one after the other, and each JSON row
tells where its part begins and how long it is.

Elsewhere: running it (batch_trigger).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlcache.objects import Object
from sqlcache.store._sql.compression import Body
from sqlcache.store._sql.counted import to_json
from sqlcache.store._sql.terms import DIGEST_BYTES, Label, Scope

NO_IDENTITY = ("", "")


class Row(NamedTuple):
    """One key's new state, with all that can be worked out without the database.

    Attributes:
        key: the object's key.
        digest: of its terms; None if it goes.
        namespace, labels, index_values: as in the change.
        kept: the object, where the shelf keeps it parsed.
        body: the object in bytes, where its row keeps it.
        identity: its uid and resourceVersion, where its row keeps it.
    """

    key: str
    digest: bytes | None = None
    namespace: str = ""
    labels: Mapping[str, str] = MappingProxyType({})
    index_values: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    kept: Object | None = None
    body: Body | None = None
    identity: tuple[str, str] = NO_IDENTITY

    def parsed(self) -> Object:
        """Return the object as a reader gets it."""
        if self.kept is not None:
            return self.kept
        if self.body is None:
            raise RuntimeError(f"nothing is kept under {self.key!r}")
        return self.body.decoded()


Numbered = tuple[int, Row]  # an object's id, and what it becomes


# What is stored of an object whatever its caller does to it later: its id, its namespace, and its
# stamp: the digest of its terms, then their packed ids. There are many: so it is plain, for the
# garbage collector lets go of that, and the stamp is one object, for a second one takes 48 bytes.
Filing = tuple[int, str, bytes]


class Stored(NamedTuple):
    """A key, and the filing of what is stored under it."""

    key: str
    id: int
    namespace: str
    stamp: bytes


class Batch(NamedTuple):
    """What happens to objects.

    Attributes:
        fresh: those that are new.
        moved: those whose terms change.
        same: those whose terms stay.
        leaving: those that go.
        rescoped: (object id, new namespace) of those moved to another one.
        terms: packed ids of the terms of fresh, moved and refiled objects, by object id.
        changed: key and value of the terms that moved objects lose or get, by object id.
        refiled: those whose terms stay, but not the ids of all.
    """

    fresh: list[Numbered]
    moved: list[Numbered]
    same: list[Numbered]
    leaving: list[Stored]
    rescoped: list[tuple[int, Scope]]
    terms: Mapping[int, bytes]
    changed: Mapping[int, Sequence[Label]]
    refiled: Sequence[Numbered] = ()


def _fields(*positions: int) -> str:
    return ", ".join(f"json_extract(j.value, '$[{position}]')" for position in positions)


def _digest_and_terms(content: str, start: int, length: int) -> tuple[str, str]:
    begin, size = _fields(start), _fields(length)
    return (
        f"substr(NEW.{content}, {begin}, {DIGEST_BYTES})",
        f"substr(NEW.{content}, {begin} + {DIGEST_BYTES}, {size})",
    )


# fresh: [id, scope id, key, uid, RV, start, length of terms, *body];
# body: [start, length, dictionary id, plain length]
_ADD = (
    "INSERT INTO object (id, scope_id, key, uid, resource_version, digest, terms, body,"
    " dictionary_id, plain_bytes, version, resource_id)"
    f" SELECT {_fields(0, 1, 2, 3, 4)}, {', '.join(_digest_and_terms('fresh_content', 5, 6))},"
    f" substr(NEW.fresh_content, {_fields(7)}, {_fields(8)}), {_fields(9, 10)},"
    " NEW.version, NEW.resource_id FROM json_each(NEW.fresh) j"
)
_SET_TERMS = (  # terms: [id, start, length of terms]
    "UPDATE object SET digest = {}, terms = {}".format(*_digest_and_terms("terms_content", 1, 2))
    + f" FROM json_each(NEW.terms) j WHERE object.id = {_fields(0)}"
)
_SET_BODY = (  # bodies: [id, uid, RV, *body]
    f"UPDATE object SET uid = {_fields(1)}, resource_version = {_fields(2)}, version = NEW.version,"
    f" body = substr(NEW.bodies_content, {_fields(3)}, {_fields(4)}),"
    f" dictionary_id = {_fields(5)}, plain_bytes = {_fields(6)}"
    f" FROM json_each(NEW.bodies) j WHERE object.id = {_fields(0)}"
)
# Apart, for naming the column has its index written again even if nothing changes.
_SET_SCOPE = (  # rescoped: [id, scope id]
    f"UPDATE object SET scope_id = {_fields(1)} FROM json_each(NEW.rescoped) j"
    f" WHERE object.id = {_fields(0)}"
)
_REMOVE = "DELETE FROM object WHERE id IN (SELECT value FROM json_each(NEW.leaving))"

COLUMNS = (
    *("version", "resource_id"),
    *("fresh", "fresh_content", "terms", "terms_content", "bodies", "bodies_content"),
    *("rescoped", "leaving"),
)
"""What a batch is written from: the write's version, the resource's id, what `columns` gives."""

WRITES = (_ADD, _SET_TERMS, _SET_BODY, _SET_SCOPE, _REMOVE)
"""What writes a batch, whose columns are those of NEW."""


def columns(batch: Batch, scope_ids: Mapping[Scope, int]) -> dict[str, Any]:
    """Return what writes the objects of a batch, by column.

    Args:
        batch: the objects.
        scope_ids: the id of each namespace that an object comes into.
    """
    return {
        **_added(batch.fresh, batch.terms, scope_ids),
        **_terms((*batch.moved, *batch.refiled), batch.terms),
        **_bodies((*batch.same, *batch.moved)),
        **_listed("rescoped", [(each, scope_ids[scope]) for each, scope in batch.rescoped]),
        **_listed("leaving", [stored.id for stored in batch.leaving]),
    }


def _added(
    rows: Sequence[Numbered], terms: Mapping[int, bytes], scope_ids: Mapping[Scope, int]
) -> dict[str, Any]:
    content, written = bytearray(), []
    for object_id, row in rows:
        start = _append(content, (row.digest or b"") + terms[object_id])
        place = (start, len(terms[object_id]), *_append_body(content, row.body))
        written.append((object_id, scope_ids[row.namespace], row.key, *row.identity, *place))
    return _listed("fresh", written, content)


def _terms(rows: Iterable[Numbered], terms: Mapping[int, bytes]) -> dict[str, Any]:
    content, written = bytearray(), []
    for object_id, row in rows:
        packed = terms[object_id]
        start = _append(content, (row.digest or b"") + packed)
        written.append((object_id, start, len(packed)))
    return _listed("terms", written, content)


def _bodies(rows: Iterable[Numbered]) -> dict[str, Any]:
    content, written = bytearray(), []
    for object_id, row in rows:
        if row.body is not None:  # else the process keeps the object
            written.append((object_id, *row.identity, *_append_body(content, row.body)))
    return _listed("bodies", written, content)


def _listed(column: str, rows: Sequence[Any], content: bytearray | None = None) -> dict[str, Any]:
    """Return rows under a column, and under another one the bytes that they tell the places of."""
    if not rows:
        return {}
    listed = {column: to_json(rows)}
    return listed if content is None else {**listed, f"{column}_content": content}


def _append_body(content: bytearray, body: Body | None) -> tuple[int | None, ...]:
    """Append a body; return where it is, how long, and what it takes to read it."""
    if body is None:
        return (None,) * 4
    dictionary_id = body.dictionary.id if body.dictionary else None
    start = _append(content, body.content)
    return start, len(body.content), dictionary_id, body.plain_bytes


def _append(content: bytearray, part: bytes) -> int:
    """Append bytes; return where they start, counted from 1 as SQL's substr does."""
    start = len(content) + 1
    content += part
    return start
