"""Answers to selectors, as digests that processes can compare.

Elsewhere: who asks what (scenarios), comparing and blaming (runner).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlcache.bench.workloads import Question
from sqlcache.objects import Object, Objects
from sqlcache.selectors import Selector
from sqlcache.store.api import Indexer

Answer = tuple[int, str]  # number of objects, digest of their keys and resourceVersions


def answer(objs: Iterable[Object]) -> Answer:
    """Return count and digest of objects, in any order: which ones, and which version of each."""
    return of_keys(_identity(obj["metadata"]) for obj in objs)


def of_keys(keys: Iterable[str]) -> Answer:
    """Return count and digest of texts, in any order."""
    lines = sorted(keys)
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _identity(meta: Mapping[str, Any]) -> str:
    return f"{meta.get('namespace')}/{meta['name']} {meta.get('resourceVersion')}"


def ask(store: Indexer, questions: Iterable[Question]) -> list[Answer]:
    """Return the store's answers."""
    return [answer(store.select(*question)) for question in questions]


def by_plain_rule(pods: Objects, questions: Sequence[Question]) -> list[Answer]:
    """Return the answers that each pod, looked at one by one, gives: no store involved."""
    return [answer(_plainly(pods, *question)) for question in questions]


def _plainly(pods: Objects, namespace: str, selector: Selector) -> Objects:
    matches = selector.matches
    if not namespace:
        return [pod for pod in pods if matches(pod["metadata"].get("labels"))]
    return [
        pod
        for pod in pods
        if pod["metadata"].get("namespace") == namespace and matches(pod["metadata"].get("labels"))
    ]
