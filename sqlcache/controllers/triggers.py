"""When did what was written begin? The annotation that latency of the network is measured from.

Each sync asks for the earliest change since the sync before: of a pod's readiness, or the making of
the service. Changes that come and go between two syncs are missed, as upstream.

Source: endpointslice/util trigger_time_tracker.go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlcache.controllers.pods import ready_condition
from sqlcache.objects import Object, object_name

TRIGGER_TIME_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


class _Seen(NamedTuple):
    """The times that the last sync of a service saw."""

    service: datetime | None
    pods: dict[str, datetime]


class TriggerTimeTracker:
    """Remembers, for each service, the times that its last sync saw.

    Every method may be called from any thread, but not twice at once for the same service.
    """

    def __init__(self) -> None:
        """Know no service."""
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def trigger_time(self, service: Object, pods: Iterable[Object]) -> str | None:
        """Remember the times of a service and its pods, and return what the annotation should be.

        Args:
            service: the one being synced.
            pods: all that it selects, endpoints or not.

        Returns:
            The creation of the service at its first sync; later the earliest time that is newer
            than what was seen, in RFC 3339, UTC. None: there should be no annotation.
        """
        key = str(object_name(service))
        now = _Seen(
            _time(service["metadata"].get("creationTimestamp")),
            {
                pod["metadata"]["name"]: time
                for pod in pods
                if (time := _time((ready_condition(pod) or {}).get("lastTransitionTime")))
            },
        )
        with self._lock:
            before = self._seen.get(key)
            self._seen[key] = now
        if before is None:
            return _text(now.service) if now.service else None
        changes = [
            time for name, time in now.pods.items() if _is_after(time, before.pods.get(name))
        ]
        if now.service and _is_after(now.service, before.service):
            changes.append(now.service)
        return _text(min(changes)) if changes else None

    def forget(self, key: str) -> None:
        """Forget a service that is gone."""
        with self._lock:
            self._seen.pop(key, None)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _is_after(time: datetime, other: datetime | None) -> bool:
    return other is None or time > other


def _text(time: datetime) -> str:
    """Return Go's RFC3339Nano: a fraction only if there is one, without zeros at its end."""
    utc = time.astimezone(UTC)
    fraction = f".{utc.microsecond:06d}".rstrip("0") if utc.microsecond else ""
    return f"{utc:%Y-%m-%dT%H:%M:%S}{fraction}Z"
