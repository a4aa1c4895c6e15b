"""The test API server: what clients and tests ask of it, over real connections."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import pytest

from sqlcache.testing import names
from sqlcache.testing.apiserver import ApiError, ApiServer, custom_resource
from sqlcache.testing.pytest_plugin import StartServer

pytest_plugins = ["sqlcache.testing.pytest_plugin"]

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}
Events = list[dict[str, Any]]


def pod(name: str, **meta: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, **meta}, "spec": spec}


def call(
    server: ApiServer,
    path: str,
    method: str = "GET",
    body: Any = None,
    headers: dict[str, str] | None = None,
    **query: Any,
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        path = f"{path}?{urlencode(query)}" if query else path
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, headers or {})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text[:1] == b"{" else text.decode()
    finally:
        connection.close()


class Watch:
    """A watch as a client sees it, line by line."""

    def __init__(self, server: ApiServer, path: str, **query: Any) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        self.connection.request("GET", f"{path}?{urlencode({'watch': 1, **query})}")
        self.response = self.connection.getresponse()

    def line(self) -> bytes:
        return self.response.readline()

    def events(self, count: int) -> Events:
        return [json.loads(self.line()) for _ in range(count)]

    def close(self) -> None:
        self.response.close()
        self.connection.close()

    def rest(self) -> Events:
        return [json.loads(line) for line in self.response.read().splitlines()]


@contextmanager
def watching(server: ApiServer, path: str = PODS, **query: Any) -> Iterator[Watch]:
    watch = Watch(server, path, **query)
    try:
        yield watch
    finally:
        watch.close()


def seen(events: Events) -> list[str]:
    return [f"{event['type']} {event['object']['metadata'].get('name')}" for event in events]


def wait_until(condition: Any, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.01)


# Life --------------------------------------------------------------------------------------------


def test_it_starts_and_stops_fast_with_watches_open() -> None:
    before = time.monotonic()
    server = ApiServer().start()
    started = time.monotonic()
    watches = [Watch(server, PODS) for _ in range(50)]
    wait_until(lambda: server.watch_count("pods") == 50)
    stopping = time.monotonic()
    server.stop()
    stopped = time.monotonic()
    assert started - before < 1
    assert stopped - stopping < 1
    assert not [each for each in threading.enumerate() if each.name == "apiserver"]
    for watch in watches:
        watch.close()
    server.stop()  # twice is harmless


def test_a_client_that_connects_while_it_stops_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unclosed: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: unclosed.append(str(found.exc_value)))
    for _ in range(5):
        stopped = threading.Event()

        def connect(port: int, stopped: threading.Event = stopped) -> None:
            while not stopped.is_set():
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    pass

        with ThreadPoolExecutor(2) as clients, ApiServer() as server:
            clients.submit(connect, server.port)
            clients.submit(connect, server.port)
            time.sleep(0.02)
            server.stop()
            stopped.set()
    gc.collect()
    assert unclosed == []


def test_it_listens_on_the_loopback_only(api_server: ApiServer) -> None:
    assert api_server.url == f"http://127.0.0.1:{api_server.port}"
    with (
        pytest.raises(OSError, match=r"."),
        socket.create_connection(("127.0.0.2", api_server.port), timeout=1),
    ):
        pass


def test_two_servers_share_nothing(api_server_factory: StartServer) -> None:
    one, two = api_server_factory(), api_server_factory()
    one.create("pods", pod("a"))
    assert one.count("pods") == 1
    assert two.count("pods") == 0


def test_a_stopped_server_cannot_be_started_again(api_server_factory: StartServer) -> None:
    server = api_server_factory()
    server.stop()
    with pytest.raises(RuntimeError, match="make a new one"):
        server.start()


def test_a_port_in_use_is_an_error(api_server: ApiServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ApiServer(port=api_server.port).start()


# Objects -----------------------------------------------------------------------------------------


def test_direct_calls_and_http_see_the_same_objects(api_server: ApiServer) -> None:
    api_server.create("pods", pod("a", labels={"app": "web"}))
    status, got = call(api_server, f"{PODS}/a")
    assert status == 200
    assert got == api_server.get("pods", "a")
    api_server.patch("pods", "a", {"metadata": {"labels": {"app": "db"}}})
    assert api_server.list("pods", label_selector="app=web") == []
    assert names(api_server.list("pods", "default")) == ["a"]
    api_server.delete("pods", "a")
    with pytest.raises(ApiError, match="not found") as caught:
        api_server.get("pods", "a")
    assert caught.value.code == 404


def test_loaded_objects_keep_their_status_and_can_be_changed(api_server: ApiServer) -> None:
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    api_server.load(
        "pods", [{**pod(f"p{index}", namespace="x"), "status": status} for index in range(3)]
    )
    assert api_server.get("pods", "p0", "x")["status"]["podIP"] == "10.0.0.1"
    path = "/api/v1/namespaces/x/pods/p0"
    patch = {"metadata": {"labels": {"a": "b"}}}
    code, got = call(api_server, path, "PATCH", patch, MERGE)
    assert code == 200
    assert got["status"]["phase"] == "Running"
    assert api_server.delete("pods", "p1", "x")["metadata"]["name"] == "p1"


def test_an_update_of_an_old_version_is_a_conflict(api_server: ApiServer) -> None:
    old = api_server.create("pods", pod("a"))
    api_server.patch("pods", "a", {"metadata": {"labels": {"x": "1"}}})
    code, answer = call(api_server, f"{PODS}/a", "PUT", old)
    assert (code, answer["reason"]) == (409, "Conflict")


def test_concurrent_updates_lose_nothing(api_server: ApiServer) -> None:
    """Each thread adds its numbers to one object, and tries again when it comes too late."""
    api_server.create("pods", pod("a", annotations={"n": "0"}))

    def add(_: int) -> int:
        conflicts = 0
        while True:
            _, obj = call(api_server, f"{PODS}/a")
            counted = obj["metadata"]["annotations"]
            counted["n"] = str(int(counted["n"]) + 1)
            code, _ = call(api_server, f"{PODS}/a", "PUT", obj)
            if code == 200:
                return conflicts
            assert code == 409
            conflicts += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert api_server.get("pods", "a")["metadata"]["annotations"]["n"] == "40"


def test_unknown_fields_are_dropped_at_any_depth_with_a_warning(api_server: ApiServer) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["nope"] = 1
    connection = http.client.HTTPConnection("127.0.0.1", api_server.port, timeout=5)
    connection.request("POST", PODS, json.dumps(body))
    response = connection.getresponse()
    assert response.getheader("Warning") == '299 - "unknown field \\"spec.containers[0].nope\\""'
    assert "nope" not in json.loads(response.read())["spec"]["containers"][0]
    connection.close()
    code, answer = call(api_server, PODS, "POST", body, fieldValidation="Strict")
    assert (code, answer["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("path", "value"),
    [("metadata", "x"), ("spec", []), ("metadata.labels", {"a": 1}), ("spec.hostNetwork", "yes")],
)
def test_a_field_of_the_wrong_type_is_refused(api_server: ApiServer, path: str, value: Any) -> None:
    body: Any = pod("a")
    *parents, last = path.split(".")
    part = body
    for name in parents:
        part = part[name]
    part[last] = value
    code, answer = call(api_server, PODS, "POST", body)
    assert (code, answer["reason"]) == (400, "BadRequest")


def test_a_finalizer_holds_an_object_back(api_server: ApiServer) -> None:
    api_server.create(
        "services",
        {
            "metadata": {"name": "web", "finalizers": ["example.com/hold"]},
            "spec": {"ports": [{"port": 80}]},
        },
    )
    held = api_server.delete("services", "web")
    assert "deletionTimestamp" in held["metadata"]
    api_server.patch("services", "web", {"metadata": {"finalizers": None}})
    assert api_server.count("services") == 0


def test_a_namespace_ends_when_its_finalizers_are_taken(api_server: ApiServer) -> None:
    api_server.create("namespaces", {"metadata": {"name": "x"}})
    gone = api_server.delete("namespaces", "x")
    assert gone["status"]["phase"] == "Terminating"
    gone["spec"]["finalizers"] = []
    assert call(api_server, "/api/v1/namespaces/x/finalize", "PUT", gone)[0] == 200
    assert call(api_server, "/api/v1/namespaces/x")[0] == 404


@pytest.mark.parametrize(
    ("patch", "media", "images"),
    [
        ({"spec": {"containers": [{"name": "b", "image": "2"}]}}, "strategic-merge", ["1", "2"]),
        ([{"op": "replace", "path": "/spec/containers/0/image", "value": "2"}], "json", ["2", "1"]),
        ({"spec": {"containers": [{"name": "b", "image": "2"}]}}, "merge", None),
    ],
)
def test_the_kinds_of_patches_differ_in_what_they_do_to_lists(
    api_server: ApiServer, patch: Any, media: str, images: list[str] | None
) -> None:
    body = pod("a")
    body["spec"]["containers"] = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    api_server.create("pods", body)
    headers = {"Content-Type": f"application/{media}-patch+json"}
    code, answer = call(api_server, f"{PODS}/a", "PATCH", patch, headers)
    if images is None:
        assert code == 422  # one container less: a pod cannot be changed so
    else:
        assert [each["image"] for each in answer["spec"]["containers"]] == images
        assert answer["metadata"]["generation"] == 2


def test_delete_of_a_collection_takes_what_the_selector_matches(api_server: ApiServer) -> None:
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        api_server.create("pods", pod(name, labels={"app": app}))
    code, answer = call(api_server, PODS, "DELETE", labelSelector="app=web")
    assert (code, names(answer["items"])) == (200, ["a", "c"])
    assert names(api_server.list("pods")) == ["b"]


# Lists -------------------------------------------------------------------------------------------


def test_pages_show_one_state_while_objects_come_and_go(api_server: ApiServer) -> None:
    api_server.load("pods", [pod(f"p{index:03}") for index in range(100)])
    _, first = call(api_server, "/api/v1/pods", limit=10)
    listed, token = first["items"], first["metadata"]["continue"]
    step = 0
    while token:
        step += 1
        api_server.create("pods", pod(f"p{step * 10:03}-new"))
        api_server.delete("pods", f"p{step * 10 + 5:03}")
        api_server.patch("pods", f"p{step * 10 + 6:03}", {"metadata": {"labels": {"new": "1"}}})
        _, page = call(api_server, "/api/v1/pods", limit=10, **{"continue": token})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert page["metadata"].get("remainingItemCount", 0) == 100 - len(listed) - 10
        listed += page["items"]
        token = page["metadata"].get("continue")
    assert [each["metadata"]["name"] for each in listed] == [f"p{index:03}" for index in range(100)]
    assert not [each for each in listed if "labels" in each["metadata"]]


def test_a_forgotten_page_is_gone_and_offers_the_rest(api_server: ApiServer) -> None:
    api_server.load("pods", [pod(f"p{index}") for index in range(9)])
    _, page = call(api_server, PODS, limit=5)
    api_server.delete("pods", "p7")
    api_server.compact()
    token = page["metadata"]["continue"]
    code, answer = call(api_server, PODS, limit=5, **{"continue": token})
    assert (code, answer["reason"]) == (410, "Expired")
    token = answer["metadata"]["continue"]
    code, rest = call(api_server, PODS, limit=5, **{"continue": token})
    assert names(rest["items"]) == ["p5", "p6", "p8"]


def test_a_large_list_comes_in_pieces_and_is_whole(api_server: ApiServer) -> None:
    """5,000 pods of 4 KB; the promise is 50,000."""
    filler = {"filler": "x" * 3_800}
    loading = time.monotonic()
    api_server.load("pods", (pod(f"p{index:05}", annotations=filler) for index in range(5_000)))
    listing = time.monotonic()
    _, answer = call(api_server, "/api/v1/pods", resourceVersion=0, limit=500)
    done = time.monotonic()
    assert len(answer["items"]) == 5_000
    assert listing - loading < 10
    assert done - listing < 5


# Watches -----------------------------------------------------------------------------------------


def test_every_watch_gets_every_event_in_order(api_server: ApiServer) -> None:
    watches = [Watch(api_server, PODS, resourceVersion=1) for _ in range(20)]
    wait_until(lambda: api_server.watch_count("pods") == 20)

    def write(thread: int) -> None:
        for index in range(25):
            api_server.create("pods", pod(f"p{thread}-{index}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for watch in watches:
        versions = [
            int(event["object"]["metadata"]["resourceVersion"]) for event in watch.events(100)
        ]
        assert versions == sorted(set(versions))
        watch.close()


def test_a_watch_takes_up_where_a_list_ended(api_server: ApiServer) -> None:
    api_server.create("pods", pod("a"))
    _, listed = call(api_server, PODS)
    api_server.create("pods", pod("b"))
    version = listed["metadata"]["resourceVersion"]
    with watching(api_server, resourceVersion=version) as watch:
        assert seen(watch.events(1)) == ["ADDED b"]


def test_a_watch_ends_when_its_time_is_over(api_server: ApiServer) -> None:
    before = time.monotonic()
    with watching(api_server, timeoutSeconds=1, resourceVersion=1) as watch:
        assert watch.rest() == []
    assert 0.9 < time.monotonic() - before < 3


def test_a_bookmark_comes_after_all_events_before_it(api_server_factory: StartServer) -> None:
    server = api_server_factory(bookmark_interval_s=0.1)
    with watching(server, allowWatchBookmarks="true", resourceVersion=1) as watch:
        server.create("services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})
        created = server.create("pods", pod("a"))
        version = created["metadata"]["resourceVersion"]
        assert seen(watch.events(1)) in (["ADDED a"], ["BOOKMARK None"])
        for event in watch.events(3):
            last = event
        assert last["type"] == "BOOKMARK"
        assert last["object"]["metadata"] == {"resourceVersion": version}


def test_a_watch_from_the_future_gets_no_bookmark(api_server_factory: StartServer) -> None:
    """As in cache_watcher.go: it is silent until that resourceVersion has come."""
    server = api_server_factory(bookmark_interval_s=0.05)
    ahead = int(server.resource_version) + 5
    asked: dict[str, Any] = {"allowWatchBookmarks": "true", "resourceVersion": ahead}
    with watching(server, timeoutSeconds=1, **asked) as watch:
        assert watch.rest() == []
    with watching(server, **asked) as watch:
        server.skip_versions(5)
        assert [each["type"] for each in watch.events(1)] == ["BOOKMARK"]


def test_an_outrun_watch_gets_410(api_server_factory: StartServer) -> None:
    server = api_server_factory(history=10)
    old = server.create("pods", pod("a"))["metadata"]["resourceVersion"]
    for index in range(20):
        server.patch("pods", "a", {"metadata": {"labels": {"n": str(index)}}})
    with watching(server, resourceVersion=old) as watch:
        (event,) = watch.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_closed_client_is_noticed(api_server: ApiServer) -> None:
    with watching(api_server):
        wait_until(lambda: api_server.watch_count("pods") == 1)
    wait_until(lambda: api_server.watch_count("pods") == 0)


# Faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        ("forbid", 403, "Forbidden"),
        ("expire", 410, "Expired"),
        ("throttle", 429, "TooManyRequests"),
        ("fail", 500, "InternalError"),
    ],
)
def test_a_fault_strikes_what_it_fits_and_as_often_as_asked(
    api_server: ApiServer, fault: str, code: int, reason: str
) -> None:
    made = getattr(api_server.faults, fault)(verb="list", resource="pods", times=2, skip=1)
    assert call(api_server, "/api/v1/nodes")[0] == 200
    codes = [call(api_server, PODS)[0] for _ in range(4)]
    assert codes == [200, code, code, 200]
    assert made.hits == 2
    getattr(api_server.faults, fault)(verb="list")
    assert call(api_server, PODS)[1]["reason"] == reason


def test_a_throttled_client_is_told_when_to_come_back(api_server: ApiServer) -> None:
    api_server.faults.throttle(retry_after_s=7)
    connection = http.client.HTTPConnection("127.0.0.1", api_server.port, timeout=5)
    connection.request("GET", PODS)
    response = connection.getresponse()
    assert response.getheader("Retry-After") == "7"
    assert json.loads(response.read())["details"]["retryAfterSeconds"] == 7
    connection.close()


def test_a_cut_watch_ends_in_the_middle_of_a_line(api_server: ApiServer) -> None:
    for name in "abc":
        api_server.create("pods", pod(name))
    api_server.faults.cut(after_events=2, verb="watch")
    with watching(api_server) as watch:
        assert seen(watch.events(2)) == ["ADDED a", "ADDED b"]
        with pytest.raises(http.client.IncompleteRead) as caught:
            watch.response.read()
        assert caught.value.partial.startswith(b'{"type":"ADDED"')
        assert not caught.value.partial.endswith(b"\n")


def test_a_cut_list_ends_in_the_middle(api_server: ApiServer) -> None:
    api_server.create("pods", pod("a"))
    with (
        api_server.faults.cut(after_bytes=100, verb="list"),
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        call(api_server, PODS)
    assert len(caught.value.partial) == 100


def test_open_watches_can_be_cut(api_server: ApiServer) -> None:
    with watching(api_server) as watch:
        wait_until(lambda: api_server.watch_count() == 1)
        assert api_server.cut_watches("nodes") == 0
        assert api_server.cut_watches("pods") == 1
        with pytest.raises(http.client.IncompleteRead):
            watch.response.read()


def test_a_stalled_watch_is_silent_until_it_is_released(api_server: ApiServer) -> None:
    fault = api_server.faults.stall(after_events=1, verb="watch")
    with watching(api_server) as watch:
        for name in "ab":
            api_server.create("pods", pod(name))
        assert seen(watch.events(1)) == ["ADDED a"]
        watch.connection.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            watch.line()
        fault.remove()
    with watching(api_server) as watch:
        assert seen(watch.events(2)) == ["ADDED a", "ADDED b"]


def test_a_stalled_list_is_answered_when_it_is_released(api_server: ApiServer) -> None:
    fault = api_server.faults.stall(verb="list")
    threading.Timer(0.3, fault.remove).start()
    before = time.monotonic()
    assert call(api_server, PODS)[0] == 200
    assert time.monotonic() - before > 0.25


def test_an_error_event_ends_a_watch(api_server: ApiServer) -> None:
    api_server.create("pods", pod("a"))
    api_server.faults.error_event(410, after_events=1, verb="watch")
    with watching(api_server) as watch:
        events = watch.rest()
    assert [event["type"] for event in events] == ["ADDED", "ERROR"]
    assert events[1]["object"]["reason"] == "Expired"


def test_a_slow_answer_comes_late(api_server: ApiServer) -> None:
    api_server.faults.slow(0.3, verb="get")
    api_server.create("pods", pod("a"))
    before = time.monotonic()
    assert call(api_server, f"{PODS}/a")[0] == 200
    assert time.monotonic() - before > 0.25


def test_a_refused_request_is_reset(api_server: ApiServer) -> None:
    api_server.faults.refuse(verb="list")
    with pytest.raises(OSError, match=r"."):
        call(api_server, PODS)
    assert call(api_server, PODS)[0] == 200


def test_a_server_that_refuses_connections_comes_back_on_its_port(api_server: ApiServer) -> None:
    with watching(api_server) as watch:
        wait_until(lambda: api_server.watch_count() == 1)
        with api_server.refusing():
            with pytest.raises(ConnectionRefusedError):
                call(api_server, PODS)
            with pytest.raises((OSError, http.client.IncompleteRead)):
                watch.response.read()
    assert call(api_server, PODS)[0] == 200


def test_requests_are_recorded(api_server: ApiServer) -> None:
    call(api_server, PODS, limit=5)
    last = api_server.requests[-1]
    assert (last.verb, last.resource, last.query) == ("list", "pods", {"limit": "5"})
    assert last.target.namespace == "default"


# Custom resources --------------------------------------------------------------------------------

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@pytest.fixture
def widgets(api_server: ApiServer) -> ApiServer:
    api_server.register(
        custom_resource("widgets", "Widget", "example.com", selectable_fields=["spec.size"])
    )
    return api_server


def widget(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def test_a_custom_resource_keeps_any_field(widgets: ApiServer) -> None:
    code, made = call(widgets, WIDGETS, "POST", widget("w", size="big", any={"thing": [1]}))
    assert code == 201
    assert made["spec"] == {"size": "big", "any": {"thing": [1]}}
    assert made["metadata"]["generation"] == 1
    _, listed = call(widgets, WIDGETS, fieldSelector="spec.size=big")
    assert listed["kind"] == "WidgetList"
    assert listed["items"] == [made]  # with kind and apiVersion, unlike built-in kinds
    patch = {"status": {"ready": True}, "spec": {"size": "ignored"}}
    _, patched = call(widgets, f"{WIDGETS}/w/status", "PATCH", patch, MERGE)
    assert (patched["status"], patched["spec"]["size"]) == ({"ready": True}, "big")
    assert patched["metadata"]["generation"] == 1
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    assert call(widgets, f"{WIDGETS}/w", "PATCH", {}, strategic)[0] == 415


def test_a_custom_resource_is_watched_and_discovered(widgets: ApiServer) -> None:
    with watching(widgets, WIDGETS) as watch:
        widgets.create("widgets", widget("w"))
        assert seen(watch.events(1)) == ["ADDED w"]
    _, document = call(widgets, "/apis/example.com/v1")
    assert [each["name"] for each in document["resources"]] == ["widgets", "widgets/status"]
