"""What an object selects: the selector in its `spec`, as controllers read it.

| `spec.selector` is | by | of |
|---|---|---|
| a mapping of labels | `service_selector` | Services, ReplicationControllers |
| a LabelSelector | `label_selector` | PodDisruptionBudgets, Deployments, ReplicaSets, … |

Promises
- Any object gives a Selector, whatever is in its `spec`: what can be met by no labels, or is not
  valid, selects nothing.

Elsewhere: which objects of a store select given labels (sqlcache.store.api, `selecting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlcache.errors import SelectorError
from sqlcache.selectors._selector import NOTHING, Selector
from sqlcache.selectors._sources import from_label_selector, from_labels

SelectorFunc: TypeAlias = Callable[[Any], Selector]


def service_selector(obj: Any) -> Selector:
    """Return what a Service selects by `spec.selector`: pods that have all its labels.

    None or a missing field selects nothing, `{}` everything. Keys and values are compared as they
    are, valid or not. A value that is no string, which no API server stores, is met by no pod.

    Source: k8s.io/endpointslice util getServicesForPod; apimachinery labels.ValidatedSetSelector.
    """
    selector = _spec_selector(obj)
    if not isinstance(selector, Mapping):
        return NOTHING
    try:
        return from_labels(selector)
    except TypeError:
        return NOTHING


def label_selector(obj: Any) -> Selector:
    """Return what an object selects by `spec.selector`, a metav1.LabelSelector.

    None or a missing field selects nothing, `{}` everything; one that is not valid selects nothing.

    Source: client-go listers/policy/v1 GetPodPodDisruptionBudgets; apimachinery
    metav1.LabelSelectorAsSelector.
    """
    try:
        return from_label_selector(_spec_selector(obj))
    except SelectorError:
        return NOTHING


def _spec_selector(obj: Any) -> Any:
    spec = obj.get("spec")
    return spec.get("selector") if isinstance(spec, Mapping) else None
