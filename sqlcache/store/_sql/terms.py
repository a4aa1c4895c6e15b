"""Terms: the labels and index values of one object, their digest, and their ids as bytes.

A term is (scope, key, value): the scope is the object's namespace for a label, and the one scope
of all index values for an index value. The order is that of the object's own mappings, so ids can
be stored without repeating what they stand for: equal digests mean equal terms in equal order.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import repeat

_Values = Mapping[str, tuple[str, ...]]
Scope = str  # a namespace, or INDEX_SCOPE; text, for its hash is kept and terms are hashed often
Term = tuple[Scope, str, str]  # scope, key name, value
Label = tuple[str, str]  # a term without its scope

INDEX_SCOPE: Scope = "\0"  # no namespace contains NUL
DIGEST_BYTES = 16  # long enough that nobody finds two label sets with one digest
FINGERPRINT_BYTES = 8


class ScopeKind(IntEnum):
    """What a scope holds together: `scope.kind`."""

    NAMESPACE = 0
    INDEXES = 1


def scope_name(scope: Scope) -> tuple[int, str]:
    """Return kind and namespace, as the scope's row has them."""
    if scope == INDEX_SCOPE:
        return int(ScopeKind.INDEXES), ""
    return int(ScopeKind.NAMESPACE), scope


def scope_of(kind: int, namespace: str) -> Scope:
    """Return the scope that a row stands for."""
    return INDEX_SCOPE if kind == ScopeKind.INDEXES else namespace


def digest(label_text: str, index_values: _Values) -> bytes:
    """Return 16 bytes that stand for an object's terms and their order.

    Args:
        label_text: of its namespace and labels (store._base).
        index_values: values by index name.
    """
    content = label_text.encode()
    if index_text := _index_text(index_values):
        content += b"\xff" + index_text.encode()  # a byte that no text has
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def fingerprint(label_text: str, index_values: _Values) -> bytes:
    """Return 8 bytes that stand for an object's terms and their order, within this process.

    Less work than `digest`. Python's hashes of texts are keyed at random for each process, so that
    no labels can be made to collide; by chance, one in 2^64 does.
    """
    index_text = _index_text(index_values) if index_values else ""
    number = hash((label_text, index_text)) if index_text else hash(label_text)
    return number.to_bytes(FINGERPRINT_BYTES, "little", signed=True)


def _index_text(index_values: _Values) -> str:
    parts: list[str] = []
    for name, values in index_values.items():
        if values:
            parts += (name, str(len(values)), *values)
    return "\0".join(parts)


def terms(namespace: str, labels: Mapping[str, str], index_values: _Values) -> list[Term]:
    """Return an object's terms: labels first, then index values."""
    found = list(zip(repeat(namespace), labels, labels.values()))
    if index_values:
        found += [(INDEX_SCOPE, name, each) for name in index_values for each in index_values[name]]
    return found


def has_values(found: Sequence[Term]) -> bool:
    """Return whether terms in the order of `terms` have an index value among them."""
    return bool(found) and found[-1][0] == INDEX_SCOPE


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return ids as little-endian words: 4 bytes each, or 8 behind one leading byte."""
    try:
        return _words(len(ids)).pack(*ids)
    except struct.error:  # an id of more than 32 bits
        return struct.pack(f"<B{len(ids)}Q", 0, *ids)


def unpack_ids(packed: bytes) -> tuple[int, ...]:
    """Return the ids that `pack_ids` packed."""
    if len(packed) % 4 == 0:
        return _words(len(packed) // 4).unpack(packed)
    return struct.unpack_from(f"<{len(packed) // 8}Q", packed, 1)


@lru_cache
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")
