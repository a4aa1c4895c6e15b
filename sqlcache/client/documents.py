"""Documents of an API server that are no objects, such as those of discovery.

Elsewhere: what they mean (client.discovery), objects (client.objects, client.transport).
"""

from __future__ import annotations

from typing import Any

from sqlcache.client.connections import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    Call,
    Connections,
    body_of,
    decoded,
)


class ApiDocuments:
    """Reads whatever is at a path."""

    def __init__(self, client: Any) -> None:
        """Make connections as they are needed; `close` frees them.

        Args:
            client: a `kubernetes.client.ApiClient`, for instance from `connect`.
        """
        self._connections = Connections(client)

    def get(self, path: str, accept: str = "application/json") -> Any:
        """Return a document, decoded.

        Args:
            path: such as "/apis".
            accept: media types, the best first; all of them JSON.

        Raises:
            ApiStatusError, OSError, ApiDecodeError: as those of a `ListWatch`.
        """
        call = Call()
        try:
            response = self._connections.request(
                "GET",
                path,
                {},
                connect_timeout_s=CONNECT_TIMEOUT_S,
                read_timeout_s=READ_TIMEOUT_S,
                call=call,
                accept=accept,
            )
            return decoded(body_of(response))
        finally:
            call.over()

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._connections.close()
