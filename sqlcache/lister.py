"""Listers: read-only views of an Indexer for controllers.

Source: client-go listers/core/v1, tools/cache listers.go.
"""

from __future__ import annotations

from typing import Any

from sqlcache.errors import NotFoundError
from sqlcache.objects import ALL_NAMESPACES, Object, Objects, labels_of, object_name
from sqlcache.selectors import EVERYTHING, SelectorLike
from sqlcache.store.api import Indexer


class NamespaceLister:
    """The objects of one namespace."""

    def __init__(self, indexer: Indexer, resource: str, namespace: str) -> None:
        """Make a lister.

        Args:
            indexer: the store.
            resource: singular resource name, for messages: "pod".
            namespace: exact name; "" lists all namespaces and gets cluster-scoped objects.
        """
        self._indexer, self._resource, self.namespace = indexer, resource, namespace

    def list(self, selector: SelectorLike = EVERYTHING) -> Objects:
        """Return the objects whose labels match, in no particular order.

        Args:
            selector: a string, Selector, mapping of labels, or LabelSelector dict.

        Raises:
            SelectorError: the selector is not valid.

        Source: client-go cache.ListAllByNamespace.
        """
        return self._indexer.select(self.namespace, selector)

    def get(self, name: str) -> Object:
        """Return the object of that name.

        Raises:
            NotFoundError: there is none.
        """
        key = f"{self.namespace}/{name}" if self.namespace else name
        obj = self._indexer.get_by_key(key)
        if obj is None:
            raise NotFoundError(self._resource, name)
        return obj


class Lister:
    """The objects of one resource, in all namespaces or one.

    Example:
        >>> services = Lister(store, "service")
        >>> services.by_namespace("shop").get("web")
    """

    def __init__(self, indexer: Indexer, resource: str) -> None:
        """Make a lister.

        Args:
            indexer: the store.
            resource: singular resource name, for messages: "service".
        """
        self._indexer, self._resource = indexer, resource

    def list(self, selector: SelectorLike = EVERYTHING) -> Objects:
        """Return the objects of all namespaces whose labels match, in no particular order.

        Args:
            selector: a string, Selector, mapping of labels, or LabelSelector dict.

        Raises:
            SelectorError: the selector is not valid.

        Source: client-go cache.ListAll.
        """
        return self._indexer.select(ALL_NAMESPACES, selector)

    def selecting(self, obj: Any) -> Objects:
        """Return the objects in the namespace of an object whose own selector matches its labels.

        An object without labels is asked for like any other: selectors without a positive term,
        such as `{}`, match it. Objects that have no selector select nothing.

        Args:
            obj: need not be stored here. Without a namespace, all namespaces are looked at.

        Raises:
            ObjectError: it is no object.
            NoSelectorsError: the store has no selector function.

        Source: client-go listers' GetPodServices, GetPodPodDisruptionBudgets; k8s.io/endpointslice
        util getServicesForPod. GetPodReplicaSets and its like refuse a pod without labels, and
        treat none found as an error; this does neither.
        """
        namespace = object_name(obj).namespace
        return self._indexer.selecting(namespace, labels_of(obj))

    def by_namespace(self, namespace: str) -> NamespaceLister:
        """Return a lister of one namespace; "" is all of them."""
        return NamespaceLister(self._indexer, self._resource, namespace)

    def get(self, name: str) -> Object:
        """Return the cluster-scoped object of that name.

        Raises:
            NotFoundError: there is none.
        """
        return self.by_namespace("").get(name)


class PodLister(Lister):
    """The pods of a store.

    Example:
        >>> PodLister(store).pods("shop").list("app=web,tier in (a,b),!canary")
    """

    def __init__(self, indexer: Indexer) -> None:
        """Make a lister of a store of pods."""
        super().__init__(indexer, "pod")

    def pods(self, namespace: str) -> NamespaceLister:
        """Return a lister of the pods of one namespace; "" is all of them."""
        return self.by_namespace(namespace)


class ServiceLister(Lister):
    """The services of a store.

    Example:
        >>> ServiceLister(store).selecting(pod)
    """

    def __init__(self, indexer: Indexer) -> None:
        """Make a lister of a store of services."""
        super().__init__(indexer, "service")

    def services(self, namespace: str) -> NamespaceLister:
        """Return a lister of the services of one namespace; "" is all of them."""
        return self.by_namespace(namespace)
