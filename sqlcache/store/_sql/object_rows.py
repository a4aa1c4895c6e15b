"""Rows of the `object` table: a batch's new, changed and removed ones as statements.

JSON carries no bytes: all bytes of a batch go in one parameter, one after the other, and each JSON
row tells where its part begins and how long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlcache.objects import Object
from sqlcache.store._sql.compression import Body
from sqlcache.store._sql.counted import Statement, to_json
from sqlcache.store._sql.terms import DIGEST_BYTES, Scope

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
        refiled: those whose terms stay, but not the ids of all.
    """

    fresh: list[Numbered]
    moved: list[Numbered]
    same: list[Numbered]
    leaving: list[Stored]
    rescoped: list[tuple[int, Scope]]
    terms: dict[int, bytes]
    refiled: Sequence[Numbered] = ()


def _fields(*positions: int) -> str:
    return ", ".join(f"json_extract(j.value, '$[{position}]')" for position in positions)


def _digest_and_terms(start: int, length: int) -> tuple[str, str]:
    begin, size = _fields(start), _fields(length)
    return (
        f"substr(:content, {begin}, {DIGEST_BYTES})",
        f"substr(:content, {begin} + {DIGEST_BYTES}, {size})",
    )


# Named parameters: the bytes come several times, and Python 3.14 refuses a sequence for `?1`.
# rows: [id, scope id, key, uid, RV, start, length of terms, *body];
# body: [start, length, dictionary id, plain length]
_ADD = (
    "INSERT INTO object (id, scope_id, key, uid, resource_version, digest, terms, body,"
    " dictionary_id, plain_bytes, version, resource_id)"
    f" SELECT {_fields(0, 1, 2, 3, 4)}, {', '.join(_digest_and_terms(5, 6))},"
    f" substr(:content, {_fields(7)}, {_fields(8)}), {_fields(9, 10)}, :version, :resource_id"
    " FROM json_each(:rows) j"
)
_SET_TERMS = (  # rows [id, start, length of terms]
    "UPDATE object SET digest = {}, terms = {}".format(*_digest_and_terms(1, 2))
    + f" FROM json_each(:rows) j WHERE object.id = {_fields(0)}"
)
_SET_BODY = (  # rows [id, uid, RV, *body]
    f"UPDATE object SET uid = {_fields(1)}, resource_version = {_fields(2)}, version = :version,"
    f" body = substr(:content, {_fields(3)}, {_fields(4)}),"
    f" dictionary_id = {_fields(5)}, plain_bytes = {_fields(6)}"
    f" FROM json_each(:rows) j WHERE object.id = {_fields(0)}"
)
# Apart, for naming the column has its index written again even if nothing changes.
_SET_SCOPE = (
    f"UPDATE object SET scope_id = {_fields(1)} FROM json_each(?) j WHERE object.id = {_fields(0)}"
)
_REMOVE = "DELETE FROM object WHERE id IN (SELECT value FROM json_each(?))"


def add(
    rows: Sequence[Numbered],
    terms: Mapping[int, bytes],
    scope_ids: Mapping[Scope, int],
    version: int,
    resource_id: int,
) -> Iterator[Statement]:
    """Yield what inserts new objects.

    Args:
        rows: the objects.
        terms: the packed ids of each one's terms.
        scope_ids: the id of each one's namespace.
        version: of this write.
        resource_id: of the resource's row.
    """
    if rows:
        content, written = bytearray(), []
        for object_id, row in rows:
            start = _append(content, (row.digest or b"") + terms[object_id])
            place = (start, len(terms[object_id]), *_append_body(content, row.body))
            written.append((object_id, scope_ids[row.namespace], row.key, *row.identity, *place))
        yield (
            _ADD,
            {
                "content": bytes(content),
                "rows": to_json(written),
                "version": version,
                "resource_id": resource_id,
            },
        )


def set_terms(rows: Sequence[Numbered], terms: Mapping[int, bytes]) -> Iterator[Statement]:
    """Yield what gives objects other terms."""
    if rows:
        content, written = bytearray(), []
        for object_id, row in rows:
            packed = terms[object_id]
            start = _append(content, (row.digest or b"") + packed)
            written.append((object_id, start, len(packed)))
        yield _SET_TERMS, {"content": bytes(content), "rows": to_json(written)}


def set_bodies(rows: Iterable[Numbered], version: int) -> Iterator[Statement]:
    """Yield what gives objects a new body; those that the process keeps have none."""
    content, written = bytearray(), []
    for object_id, row in rows:
        if row.body is not None:
            written.append((object_id, *row.identity, *_append_body(content, row.body)))
    if written:
        yield (
            _SET_BODY,
            {"content": bytes(content), "rows": to_json(written), "version": version},
        )


def set_scopes(pairs: Sequence[tuple[int, int]]) -> Iterator[Statement]:
    """Yield what moves objects, given as (object id, scope id), to another namespace."""
    if pairs:
        yield _SET_SCOPE, (to_json(pairs),)


def remove(object_ids: Sequence[int]) -> Iterator[Statement]:
    """Yield what deletes objects."""
    if object_ids:
        yield _REMOVE, (to_json(object_ids),)


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
