"""What the tables hold, and which label keys cost most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import orjson

from sqlcache.objects import Object, labels_of
from sqlcache.store._sql.counted import Query
from sqlcache.store._sql.label_keys import LabelKeys
from sqlcache.store.api import BodyStats, LabelKeyStats

_POSTING_BYTES = 14  # two ids of 3 bytes, the record's header and its slot, at full pages
_LABEL_BYTES = 12  # scope, key, id and count with the record's header and its slot; plus the value

_TOTALS = (
    "SELECT json_array(ifnull(sum(n), 0), count(*)) FROM scope"
    " WHERE resource_id = ? AND kind = 0 AND n > 0"
)
_KEYS = (
    "SELECT json_group_array(json_array(k.name, t.labels, t.n, t.bytes)) FROM"
    " (SELECT l.key_id, count(*) AS labels, sum(l.n) AS n,"
    "  sum(length(CAST(l.value AS BLOB))) AS bytes"
    "  FROM scope s CROSS JOIN label l"
    "  WHERE s.resource_id = ? AND s.kind = 0 AND l.scope_id = s.id GROUP BY l.key_id) t"
    " CROSS JOIN label_key k WHERE k.id = t.key_id"
)

_BODIES = (
    "SELECT json_group_array(json_array(t.dictionary_id, t.n, t.bytes, t.plain_bytes)) FROM"
    " (SELECT dictionary_id, count(*) AS n, sum(length(body)) AS bytes,"
    "  sum(ifnull(plain_bytes, length(body))) AS plain_bytes"
    "  FROM object WHERE resource_id = ? GROUP BY dictionary_id ORDER BY dictionary_id) t"
)
_NAMESPACES = (
    "SELECT json_array(ifnull(sum(n), 0), json_group_array(id))"
    " FROM scope WHERE resource_id = ? AND kind = 0"
)
_NAMES = "SELECT json_group_array(name) FROM label_key"
LABELS_OF = "SELECT count(*) FROM label WHERE scope_id = ?"


def namespaces(query: Query, resource_id: int) -> tuple[int, list[int]]:
    """Return the number of objects, and the ids of the scopes that they are in."""
    objects, scopes = orjson.loads(query(_NAMESPACES, (resource_id,)))
    return objects, scopes


def collect(
    query: Query, resource_id: int, label_keys: LabelKeys
) -> tuple[int, int, tuple[LabelKeyStats, ...]]:
    """Return the number of objects, of namespaces, and the indexed keys, the dearest first."""
    objects, namespaces = orjson.loads(query(_TOTALS, (resource_id,)))
    keys = [
        LabelKeyStats(key, labels, n, values + labels * _LABEL_BYTES + n * _POSTING_BYTES)
        for key, labels, n, values in orjson.loads(query(_KEYS, (resource_id,)))
        if label_keys.complete(key)
    ]
    return objects, namespaces, ordered(keys)


def bodies(query: Query, resource_id: int) -> tuple[BodyStats, ...]:
    """Return how packed objects are stored; those that are not compressed come first."""
    return tuple(BodyStats(*row) for row in orjson.loads(query(_BODIES, (resource_id,))))


def ordered(keys: Iterable[LabelKeyStats]) -> tuple[LabelKeyStats, ...]:
    """Return label keys, those first that cost or save most."""
    return tuple(sorted(keys, key=lambda stats: (-stats.bytes - stats.saved_bytes, stats.key)))


def unindexed(query: Query, label_keys: LabelKeys) -> bool:
    """Return whether objects may carry label keys that are not indexed."""
    if label_keys.everything:
        return False
    return not all(label_keys.complete(key) for key in orjson.loads(query(_NAMES, ())))


def counted(objs: Iterable[Object], label_keys: LabelKeys) -> tuple[LabelKeyStats, ...]:
    """Return the label keys that are not indexed.

    Values are told apart by their hashes: there may be millions.
    """
    carriers: Counter[str] = Counter()
    values: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by key: bytes by hash
    for obj in objs:
        namespace = obj["metadata"].get("namespace") or ""
        for key, value in labels_of(obj).items():
            if not label_keys.complete(key):
                carriers[key] += 1
                values[key][hash((namespace, value))] = len(value.encode())
    return tuple(
        LabelKeyStats(
            key,
            len(values[key]),
            n,
            0,
            label_keys.why_not(key),
            sum(values[key].values()) + len(values[key]) * _LABEL_BYTES + n * _POSTING_BYTES,
        )
        for key, n in carriers.items()
    )
