"""Which label keys a SQL backend indexes: all, or fewer, for memory's sake.

An index of labels costs memory for each value. Where pods carry a label with a value of their own,
nobody asks for it and it costs the most: `LabelPolicy` keeps such keys out. Every selector is
answered right under every policy; terms on keys without an index are checked on the objects.

Elsewhere: what of a policy came true in a database (store._sql.label_keys).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlcache.errors import BackendError

CHURNING_LABELS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""Label keys to which Kubernetes' own controllers give ever new values.

Source: kubernetes.io/docs/reference/labels-annotations-taints.
"""


@dataclass(frozen=True, slots=True)
class LabelPolicy:
    """Which label keys are indexed.

    Attributes:
        allow: only these may be; None: all. Any iterable of keys is taken.
        deny: these may not be, whatever `allow` says; see `CHURNING_LABELS`.
        distinct_limit: a key with more (namespace, value) pairs than this loses its index, until
            the store or its file is opened with another policy; None: no limit.
        on_demand: a key that may be indexed is from the first selector on that uses it, which
            waits for that.

    Raises:
        BackendError: `allow` or `deny` is one text, or the limit is less than 1.
    """

    allow: Iterable[str] | None = None
    deny: Iterable[str] = field(default=frozenset())
    distinct_limit: int | None = None
    on_demand: bool = False

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            keys = getattr(self, name)
            if isinstance(keys, str):
                raise BackendError(f"{name} is a collection of label keys, not the text {keys!r}")
            if keys is not None:
                object.__setattr__(self, name, frozenset(keys))
        if self.distinct_limit is not None and self.distinct_limit < 1:
            raise BackendError(f"distinct_limit is 1 or more, not {self.distinct_limit}")

    def allows(self, key: str) -> bool:
        """Return whether a key may be indexed, the limit aside."""
        return (self.allow is None or key in self.allow) and key not in self.deny


EVERY_LABEL = LabelPolicy()


def policy_of(text: str) -> LabelPolicy:
    """Return the policy that a text tells, such as "deny=churning limit=10000 on-demand".

    Raises:
        BackendError: it is none.
    """
    found: dict[str, Any] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        keys = frozenset(key for key in value.split(",") if key)
        if name == "allow":
            found["allow"] = keys
        elif name == "deny" and keys:
            churning = CHURNING_LABELS if "churning" in keys else frozenset()
            found["deny"] = keys - {"churning"} | churning
        elif name == "limit" and value.isdecimal():
            found["distinct_limit"] = int(value)
        elif word == "on-demand":
            found["on_demand"] = True
        elif word != "all":
            raise BackendError(
                f"{word!r} is no part of a label policy; those are all, allow=KEY,..., "
                "deny=KEY,..., limit=N and on-demand"
            )
    return LabelPolicy(**found)
