"""Detects callers that change objects which the cache shares with all readers.

A debugging aid: each object handed out is encoded and compared, which costs more than the read.
Source: client-go tools/cache mutation_detector.go (there switched on by
KUBE_CACHE_MUTATION_DETECTOR).
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable

import orjson

from sqlcache.errors import MutatedObjectError
from sqlcache.objects import KeyFunc, Object, meta_namespace_key_func

_WATCHED_OBJECTS = 100_000  # each entry keeps its object alive; the longest unseen goes first


class MutationDetector:
    """Remembers a digest of every object that was stored or handed out."""

    def __init__(self, key_func: KeyFunc) -> None:
        self._key_func = key_func
        self._lock = threading.Lock()
        self._seen: OrderedDict[int, tuple[Object, str, bytes]] = OrderedDict()

    def watch(self, key: str, obj: Object) -> None:
        """Take the present state of the object stored under a key as the right one."""
        with self._lock:
            self._remember(key, obj)

    def check(self, objs: Iterable[Object]) -> None:
        """Compare objects with their remembered state; new ones are remembered.

        Raises:
            MutatedObjectError: one was changed since.
        """
        with self._lock:
            for obj in objs:
                seen = self._seen.get(id(obj))
                if seen is None:
                    self._remember(self._key(obj), obj)
                elif seen[2] != _digest(obj):
                    raise MutatedObjectError(seen[1])

    def _key(self, obj: Object) -> str:
        try:
            return self._key_func(obj)
        except Exception:  # noqa: BLE001 - the key was made before the transform ran
            return meta_namespace_key_func(obj)

    def _remember(self, key: str, obj: Object) -> None:
        # The entry holds the object, so its id() cannot be taken by another one.
        self._seen[id(obj)] = (obj, key, _digest(obj))
        self._seen.move_to_end(id(obj))
        while len(self._seen) > _WATCHED_OBJECTS:
            self._seen.popitem(last=False)


def _digest(obj: Object) -> bytes:
    try:
        encoded = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # what only a store that keeps parsed objects takes, such as 2**70
        encoded = repr(obj).encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()
