"""The protocol between an informer and whatever talks to the API server.

Promises that an implementation makes
- What it returns is decoded JSON that nobody else holds: the informer keeps it.
- The label and field selector, if it has any, hold for the list and for the watch alike.
- An answer with an HTTP status of 400 or above is raised as `ApiStatusError`; a refused connection
  as something that is a `ConnectionRefusedError`, any other failure to reach the server as some
  `OSError`.
- It does not retry and does not wait: the informer knows when to try again.
- A call returns soon after its `stop` signal is raised, in whatever way. One that does not only
  makes `stop()` of the informer leave a thread behind until it returns.

Source: client-go tools/cache listwatch.go; apimachinery metav1.ListOptions for the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from sqlcache.clock import StopSignal

Page: TypeAlias = dict[str, Any]  # {"metadata": {"resourceVersion", "continue"?}, "items": [...]}
Event: TypeAlias = dict[str, Any]  # {"type": "ADDED", "object": {...}}


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
