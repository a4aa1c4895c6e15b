"""The protocols between informers, controllers and whatever talks to the API server.

Promises that an implementation makes
- What it returns is decoded JSON that nobody else holds: an informer keeps it.
- The label and field selector, if it has any, hold for the list and for the watch alike.
- An answer with an HTTP status of 400 or above is raised as `ApiStatusError`; a refused connection
  as something that is a `ConnectionRefusedError`, any other failure to reach the server as some
  `OSError`.
- It does not retry and does not wait: the caller knows when to try again.
- A call that takes a `stop` signal returns soon after it is raised, in whatever way. One
  that does not only makes `stop()` of the informer leave a thread behind until it returns.

Source: client-go tools/cache listwatch.go; apimachinery metav1.ListOptions for the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from sqlcache.clock import StopSignal
from sqlcache.errors import PathSegmentError
from sqlcache.objects import Object, Objects

Page: TypeAlias = dict[str, Any]
"""`{"metadata": {"resourceVersion", "continue"?}, "items": …}`, with `kind` and `apiVersion` of the
list. The items are a list, or for a long one an iterator that decodes them while they come; that is
read to its end or closed, and raises what `list_page` raises.
"""
Event: TypeAlias = dict[str, Any]  # {"type": "ADDED", "object": {...}}

NAMESPACE_TERMINATING = "NamespaceTerminating"  # the cause of a refused create


def path_segment(name: str) -> str:
    """Return a name as it stands in the path of a URL.

    Raises:
        PathSegmentError: there it would lead elsewhere; ".." for a namespace leads to all of them.

    Source: apimachinery api/validation/path IsValidPathSegmentName.
    """
    if name in (".", "..") or "/" in name or "%" in name:
        raise PathSegmentError(name)
    return quote(name, safe="")


class Resource(NamedTuple):
    """Names a resource, such as ("apps", "v1", "deployments").

    Attributes:
        group: API group; "" for the core.
        version: its version.
        plural: lower-case plural name, as in URLs.
    """

    group: str
    version: str
    plural: str

    def path(self, namespace: str = "") -> str:
        """Return the path of a list; all namespaces, or cluster-scoped, if namespace is "".

        Raises:
            PathSegmentError: no namespace can have that name.
        """
        root = f"/apis/{quote(self.group)}" if self.group else "/api"
        inside = f"/namespaces/{path_segment(namespace)}" if namespace else ""
        return f"{root}/{quote(self.version)}{inside}/{quote(self.plural)}"


class Watch(Protocol):
    """A stream of events that was opened."""

    def __iter__(self) -> Iterator[Event]:
        """Yield decoded events as they come; end when the server ends the stream.

        Raises:
            OSError: the connection broke; what came before is fine.
            ApiDecodeError: an event cannot be read.
        """

    def close(self) -> None:
        """End the stream. From any thread, at any time: a blocked iteration ends soon."""


class ListWatch(Protocol):
    """Lists and watches one resource, as configured when it was made.

    An attribute `supports_watch_list = False` says that `send_initial_events` cannot work. An
    attribute `source` is text that names what is listed: server, resource, namespace, selectors.
    An informer whose store was filled from an equal `source` resumes the watch; without the
    attribute it always lists.
    """

    def list_page(
        self,
        *,
        resource_version: str,
        limit: int,
        continue_token: str,
        stop: StopSignal,
    ) -> Page:
        """Return one page of a list.

        Args:
            resource_version: "" for the most recent state, "0" for any, else not older than it.
            limit: objects on the page; 0 for all.
            continue_token: from the page before; "" for the first.
            stop: give up when it is raised.

        Raises:
            ApiStatusError, OSError, ApiDecodeError: see the module.
        """

    def watch(
        self,
        *,
        resource_version: str,
        resource_version_match: str,
        send_initial_events: bool,
        allow_watch_bookmarks: bool,
        timeout_seconds: int,
        stop: StopSignal,
    ) -> Watch:
        """Open a watch.

        Args:
            resource_version: events after it.
            resource_version_match: "" to leave it out; "NotOlderThan" with initial events.
            send_initial_events: begin with an ADDED for each object and a marked BOOKMARK; False
                leaves the option out.
            allow_watch_bookmarks: let the server send BOOKMARK events.
            timeout_seconds: the server ends the stream after this time.
            stop: give up opening when it is raised; the open watch is closed by `Watch.close`.

        Raises:
            ApiStatusError, OSError: see the module.
        """


class ObjectsApi(Protocol):
    """Reads and writes single objects of any resource. All methods may be called from any thread.

    Every method raises `ApiStatusError`, `OSError` and `ApiDecodeError` as the module says, and
    does not keep or change the objects it is given.

    Source: client-go dynamic.ResourceInterface.
    """

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Create an object and return it as stored.

        Args:
            resource: what it is.
            namespace: its namespace; "" for cluster-scoped resources.
            obj: with `metadata.name` or `metadata.generateName`.
        """

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object as it is on the server now."""

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        """Return all objects that match, as they are on the server now.

        Args:
            resource: what they are.
            namespace: "" for all, and for cluster-scoped resources.
            label_selector: in the API's own syntax; the server selects.
        """

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Replace the object of that `metadata.name` and return it as stored.

        The server refuses with a conflict unless `metadata.resourceVersion` is the stored one or
        absent.
        """

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Change the fields that a JSON merge patch (RFC 7386) names; return the object as stored.

        A field is removed by None; lists are replaced whole.
        """

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object. It stays for a while if it has finalizers or a grace period."""
