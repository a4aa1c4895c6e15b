"""Which label keys a SQL backend indexes: all, or fewer, for memory's sake.

An index of labels costs memory for each value. Where pods carry a label with a value of their own,
nobody asks for it and it costs the most: `LabelPolicy` keeps such keys out. Every selector is
answered right under every policy; terms on keys without an index are checked on the objects.

Elsewhere: what of a policy came true in a database (store._sql.label_keys).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlcache.errors import BackendError
from sqlcache.selectors.validation import validate_label_key

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


_LARGEST = 2**63 - 1  # what the database can count
_NUMBER = re.compile("-?[0-9]{1,100}")


def _label_key(key: object) -> str:
    if not isinstance(key, str):
        raise BackendError(f"a label key is text, not {key!r:.100}")
    if rules := validate_label_key(key):
        raise BackendError(f"{key!r:.300} is no label key: {rules[0]}")
    return key


def _label_keys(name: str, keys: object) -> frozenset[str]:
    if isinstance(keys, str):
        raise BackendError(f"{name} is a collection of label keys, not the text {keys!r}")
    if not isinstance(keys, Iterable):
        raise BackendError(f"{name} is a collection of label keys, not {keys!r:.40}")
    return frozenset(map(_label_key, keys))


@dataclass(frozen=True, slots=True)
class LabelPolicy:
    """Which label keys are indexed.

    Attributes:
        allow: only these may be; None: all but those of `deny`. Any iterable of keys is taken.
        deny: these may not be; see `CHURNING_LABELS`.
        distinct_limit: a key with more (namespace, value) pairs than this loses its index, until
            the store or its file is opened with another policy; None: no limit.
        on_demand: a key that may be indexed is from the first selector on that uses it, which
            waits for that.

    Raises:
        BackendError: both `allow` and `deny`, what is no label key, a limit less than 1, or what is
            of another type.
    """

    allow: Iterable[str] | None = None
    deny: Iterable[str] = field(default=frozenset())
    distinct_limit: int | None = None
    on_demand: bool = False

    def __post_init__(self) -> None:
        if self.allow is not None:
            object.__setattr__(self, "allow", _label_keys("allow", self.allow))
        object.__setattr__(self, "deny", _label_keys("deny", self.deny))
        if self.allow is not None and self.deny:
            raise BackendError(
                "allow names all keys that may be indexed: give it or deny, not both"
            )
        limit = self.distinct_limit
        if limit is not None and (type(limit) is not int or not 1 <= limit <= _LARGEST):
            raise BackendError(f"distinct_limit is 1 or more, below 2**63, not {limit!r:.40}")
        if not isinstance(self.on_demand, bool):
            raise BackendError(f"on_demand is True or False, not {self.on_demand!r:.40}")

    def allows(self, key: str) -> bool:
        """Return whether a key may be indexed, the limit aside."""
        return (self.allow is None or key in self.allow) and key not in self.deny


EVERY_LABEL = LabelPolicy()
_FORM = (
    "a label policy is 'all', or some of allow=KEY,..., deny=KEY,..., limit=N and on-demand,"
    " with spaces between"
)


def policy_of(text: str) -> LabelPolicy:
    """Return the policy that a text tells, such as "deny=churning limit=10000 on-demand".

    Raises:
        BackendError: it is none; the message names the part that is wrong.
    """
    words = text.split()
    if words == ["all"]:
        return EVERY_LABEL
    found: dict[str, Any] = {}
    part = text
    try:
        for part in words:
            name, value = _part(part)
            if name in found:
                raise BackendError("that is there twice")
            found[name] = value
            LabelPolicy(**found)
        if not found:
            raise BackendError(_FORM)
    except BackendError as error:
        raise BackendError(f"{part!r:.300}: {error}") from error
    return LabelPolicy(**found)


def _part(word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    if name == "allow":
        return "allow", value.split(",")
    if name == "deny":
        keys = set(value.split(","))
        return "deny", keys - {"churning"} | CHURNING_LABELS if "churning" in keys else keys
    if name == "limit":
        if not _NUMBER.fullmatch(value):  # int() takes more: "1_000", the digits of other scripts
            raise BackendError(f"a limit is a number, not {value!r:.40}")
        return "distinct_limit", int(value)
    if word == "on-demand":
        return "on_demand", True
    raise BackendError(_FORM)
