"""How a deletion goes: at once, after a grace period, or when the finalizers are gone.

Source: apiserver registry/rest delete.go BeforeDelete; registry/generic/registry store.go Delete,
deletionFinalizersForGarbageCollection.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlcache.objects import Object
from sqlcache.testing.apiserver.kinds.base import Strategy

Clock: TypeAlias = Callable[[int], str]

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a client asks of a deletion.

    Attributes:
        grace_period_s: None leaves it to the object.
        uid: the object must have it, if given.
        rv: the object must have this resourceVersion, if given.
        policy: "Foreground", "Background", "Orphan", or "" for the default.
        dry_run: say what would be, change nothing.

    Source: metav1.DeleteOptions.
    """

    grace_period_s: int | None = None
    uid: str | None = None
    rv: str | None = None
    policy: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion does to an object.

    Attributes:
        obj: the object with the marks of its deletion; equal to what it was if nothing changes.
        gone: whether it is removed then.
    """

    obj: Object
    gone: bool


def begin(strategy: Strategy, before: Object, options: DeleteOptions, now: Clock) -> Deletion:
    """Return what a deletion does to an object, which is not changed.

    Args:
        strategy: the rules of its kind.
        before: the object as it is.
        options: what was asked.
        now: gives the time in so many seconds as text.
    """
    obj = copy.deepcopy(before)
    meta = obj["metadata"]
    if strategy.held_by_spec(obj):
        return Deletion(_mark_held(strategy, obj, now), gone=False)
    asked_s = options.grace_period_s
    if asked_s is not None and asked_s < 0:
        asked_s = 1
    grace_s = strategy.grace_period_s(obj, asked_s)
    marked = False
    if grace_s is not None:
        current_s = meta.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" not in meta:
            _mark(meta, now(grace_s), grace_s)
            marked = True
        elif current_s is not None:
            if asked_s is None or asked_s >= current_s:
                return Deletion(obj, gone=False)
            _mark(meta, now(asked_s), asked_s)
            grace_s, marked = asked_s, True
        else:
            grace_s = 0
    _set_policy_finalizer(meta, options.policy)
    if meta.get("finalizers"):
        if not marked:
            _mark(meta, meta.get("deletionTimestamp") or now(0), 0)
        return Deletion(obj, gone=False)
    return Deletion(obj, gone=not grace_s)


def ends(strategy: Strategy, obj: Object) -> bool:
    """Return whether an update lets go of an object whose deletion has begun."""
    meta = obj["metadata"]
    return bool(
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not strategy.held_by_spec(obj)
    )


def _mark(meta: Object, timestamp: str, grace_s: int) -> None:
    if "deletionTimestamp" not in meta and meta.get("generation", 0) > 0:
        meta["generation"] += 1
    meta["deletionTimestamp"] = timestamp
    meta["deletionGracePeriodSeconds"] = grace_s


def _mark_held(strategy: Strategy, obj: Object, now: Clock) -> Object:
    if "deletionTimestamp" not in obj["metadata"]:
        obj["metadata"]["deletionTimestamp"] = now(0)
        strategy.mark_deleted(obj)
    return obj


def _set_policy_finalizer(meta: Object, policy: str) -> None:
    finalizers: list[Any] = list(meta.get("finalizers") or [])
    wanted = {"Foreground": _FOREGROUND, "Orphan": _ORPHAN}.get(policy)
    if policy:
        finalizers = [each for each in finalizers if each not in (_FOREGROUND, _ORPHAN)]
    if wanted:
        finalizers.append(wanted)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
