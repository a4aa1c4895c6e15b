"""Kubernetes Events as controllers write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.controllers.events import OBJECT_BURST, OBJECT_PERIOD_S, RETRIES, EventRecorder
from sqlcache.errors import ApiConnectionRefusedError, ApiStatusError
from sqlcache.objects import Object
from sqlcache.testing.clock import VirtualClock
from tests.golden.recording import RecordingApi

WEB = {
    "apiVersion": "v1",
    "kind": "Endpoints",
    "metadata": {"namespace": "shop", "name": "web", "uid": "u1"},
}


class Api(RecordingApi):
    """Takes events, and is out of reach when told to."""

    def __init__(self) -> None:
        super().__init__(numbered=True)
        self.reachable = True
        self.tries = 0
        self.patches: list[tuple[str, Object]] = []

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        self.tries += 1
        if not self.reachable:
            raise ApiConnectionRefusedError("nobody there")
        return super().create(resource, namespace, obj)

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        self.get(resource, namespace, name)
        self.patches.append((name, patch))
        return patch


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def recorder(api: Api, clock: VirtualClock) -> Iterator[EventRecorder]:
    now = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    recorder = EventRecorder(api, "endpoint-controller", clock=clock, now=lambda: now)
    yield recorder
    assert recorder.stop(5) == []


def stored(api: Api) -> list[Object]:
    return api.list(Resource("", "v1", "events"))


def warn(recorder: EventRecorder, message: str = "no", obj: Any = WEB) -> None:
    recorder.warn(obj, "FailedToUpdateEndpoint", message)


def test_an_event_says_who_what_and_when(api: Api, recorder: EventRecorder) -> None:
    warn(recorder, "Failed to update endpoint shop/web: no")
    assert stored(api) == [], "it is written by the thread"
    recorder.flush()
    (event,) = stored(api)
    meta = event.pop("metadata")
    assert meta["namespace"] == "shop"
    assert meta["name"].startswith("web.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "namespace": "shop",
            "name": "web",
            "uid": "u1",
        },
        "type": "Warning",
        "reason": "FailedToUpdateEndpoint",
        "message": "Failed to update endpoint shop/web: no",
        "source": {"component": "endpoint-controller"},
        "reportingComponent": "endpoint-controller",
        "firstTimestamp": "2024-01-02T03:04:05Z",
        "lastTimestamp": "2024-01-02T03:04:05Z",
        "count": 1,
    }


def test_equal_events_are_counted(api: Api, recorder: EventRecorder) -> None:
    warn(recorder)
    warn(recorder)
    recorder.flush()
    warn(recorder)
    warn(recorder, "something else")
    recorder.flush()
    first, other = stored(api)
    assert (first["count"], other["count"]) == (2, 1)
    patch = {"count": 3, "lastTimestamp": "2024-01-02T03:04:05Z"}
    assert api.patches == [(first["metadata"]["name"], patch)]


def test_an_event_that_expired_on_the_server_is_made_anew(
    api: Api, recorder: EventRecorder
) -> None:
    warn(recorder)
    recorder.flush()
    (first,) = stored(api)
    api.remove(Resource("", "v1", "events"), "shop", first["metadata"]["name"])
    warn(recorder)
    recorder.flush()
    assert [event["count"] for event in stored(api)] == [1]


def test_one_object_cannot_flood_the_server(
    api: Api, recorder: EventRecorder, clock: VirtualClock
) -> None:
    for number in range(100):
        warn(recorder, f"message {number}")
    warn(recorder, obj={**WEB, "metadata": {"namespace": "shop", "name": "other"}})
    recorder.flush()
    assert len(stored(api)) == OBJECT_BURST + 1
    clock.advance(2 * OBJECT_PERIOD_S)
    for number in range(100):
        warn(recorder, f"later {number}")
    recorder.flush()
    assert len(stored(api)) == OBJECT_BURST + 1 + 2


def test_refused_events_are_dropped_and_logged(
    api: Api, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail({"create": "forbidden"})
    warn(recorder)
    recorder.flush()
    assert api.tries == 1
    assert "the API server refused event FailedToUpdateEndpoint" in caplog.text


def test_events_wait_for_a_server_out_of_reach(
    api: Api, recorder: EventRecorder, clock: VirtualClock
) -> None:
    api.reachable = False
    recorder.start()
    warn(recorder)
    clock.advance(25)
    warn(recorder)
    clock.settle()
    assert api.tries == 4, "at once, after 10 and 20 s, and for the second"
    api.reachable = True
    clock.advance(10)
    assert [event["count"] for event in stored(api)] == [2]


def test_events_are_given_up_in_the_end(
    api: Api, recorder: EventRecorder, clock: VirtualClock
) -> None:
    api.reachable = False
    recorder.start()
    warn(recorder)
    clock.advance(1000)
    assert api.tries == 1 + RETRIES
    api.reachable = True
    warn(recorder)
    clock.settle()
    assert [event["count"] for event in stored(api)] == [1]


def test_what_waits_is_written_at_the_end(api: Api, recorder: EventRecorder) -> None:
    warn(recorder)
    recorder.start()
    assert recorder.stop(5) == []
    assert len(stored(api)) == 1


def test_status_errors_know_their_causes() -> None:
    causes = [{"reason": "NamespaceTerminating", "message": "x"}, "odd"]
    error = ApiStatusError(403, "Forbidden", "no", {"causes": causes})
    assert error.is_forbidden()
    assert error.has_cause("NamespaceTerminating")
    assert not error.has_cause("Other")
    assert not ApiStatusError(403, "Forbidden", "no").has_cause("NamespaceTerminating")
    assert ApiStatusError(404, "NotFound", "no").is_not_found()
