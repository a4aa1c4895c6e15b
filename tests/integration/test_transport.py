"""ApiListWatch over real sockets, against a server that says exactly what a test tells it."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.errors import (
    ApiConnectionError,
    ApiConnectionRefusedError,
    ApiDecodeError,
    ApiStatusError,
    ApiTimeoutError,
    KubeConfigError,
    PathSegmentError,
)
from sqlcache.informer import SharedInformer
from sqlcache.store.scan import DictStore
from sqlcache.testing.factories import event, pod

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
transport = pytest.importorskip("sqlcache.client.transport")
objects = pytest.importorskip("sqlcache.client.objects")

SOON_S = 5.0  # of real time, on a busy machine


class Server:
    """Answers each request by a function of the test; remembers paths, queries and headers."""

    def __init__(self) -> None:
        server = self
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.answer: Callable[[BaseHTTPRequestHandler, dict[str, str]], None] = refuse(404)
        self.leave = threading.Event()
        self.connections = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.asked.append((parts.path, query, headers))
                try:
                    server.answer(self, query)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Be quiet."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = False
            block_on_close = True

        self._httpd = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._httpd.server_address[1]}"
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.leave.set()
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()


def refuse(code: int, body: bytes = b"", **headers: str) -> Callable[..., None]:
    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        send(handler, body, code, **headers)

    return answer


def send(handler: BaseHTTPRequestHandler, body: bytes, code: int = 200, **headers: str) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def begin_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()


def line(kind: str, obj: Any) -> bytes:
    return json.dumps(event(kind, obj)).encode() + b"\n"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def stop() -> StopSignal:
    return StopSignal(MonotonicClock())


def client_of(url: str, token: str = "") -> Any:
    configuration = kubernetes.client.Configuration()
    configuration.host = url
    if token:
        configuration.api_key = {"authorization": f"Bearer {token}"}
    return kubernetes.client.ApiClient(configuration)


@pytest.fixture
def make(server: Server) -> Iterator[Callable[..., Any]]:
    made = []

    def make(resource: Any = None, **options: Any) -> Any:
        client = client_of(server.url, "secret")
        chosen = resource or transport.Resource("", "v1", "pods")
        made.append(transport.ApiListWatch(client, chosen, **options))
        return made[-1]

    yield make
    for list_watch in made:
        list_watch.close()


def list_of(list_watch: Any, stop: StopSignal, **options: Any) -> Any:
    chosen = {"resource_version": "0", "limit": 500, "continue_token": "", **options}
    page = list_watch.list_page(stop=stop, **chosen)
    return {name: list(part) if name == "items" else part for name, part in page.items()}


def watch_of(list_watch: Any, stop: StopSignal, **options: Any) -> Any:
    chosen = {
        "resource_version": "10",
        "resource_version_match": "",
        "send_initial_events": False,
        "allow_watch_bookmarks": True,
        "timeout_seconds": 300,
        **options,
    }
    return list_watch.watch(stop=stop, **chosen)


@pytest.mark.parametrize(
    ("resource", "namespace", "path"),
    [
        (("", "v1", "pods"), "", "/api/v1/pods"),
        (("", "v1", "pods"), "shop", "/api/v1/namespaces/shop/pods"),
        (("apps", "v1", "deployments"), "", "/apis/apps/v1/deployments"),
        (("x.example", "v1beta1", "cars"), "a", "/apis/x.example/v1beta1/namespaces/a/cars"),
    ],
)
def test_any_resource_has_its_path(
    server: Server,
    make: Callable[..., Any],
    stop: StopSignal,
    resource: tuple[str, str, str],
    namespace: str,
    path: str,
) -> None:
    server.answer = refuse(200, b'{"metadata": {"resourceVersion": "7"}, "items": []}')
    page = list_of(make(transport.Resource(*resource), namespace=namespace), stop)
    assert page["metadata"]["resourceVersion"] == "7"
    asked_path, query, headers = server.asked[0]
    assert (asked_path, query) == (path, {"resourceVersion": "0", "limit": "500"})
    assert headers["authorization"] == "Bearer secret"
    assert headers["accept"] == "application/json"


@pytest.mark.parametrize("name", [".", "..", "../..", "a/b", "/", "%2e%2e"])
def test_a_name_that_would_lead_elsewhere_is_refused(server: Server, name: str) -> None:
    """Namespace ".." would be all namespaces, as the URL is put in order before it is sent."""
    pods, client = transport.Resource("", "v1", "pods"), client_of(server.url)
    with pytest.raises(PathSegmentError, match=re.escape(repr(name))):
        transport.ApiListWatch(client, pods, namespace=name)
    with closing(objects.ApiObjects(client)) as api:
        for ask in (api.get, api.delete):
            with pytest.raises(PathSegmentError):
                ask(pods, "default", name)
            with pytest.raises(PathSegmentError):
                ask(pods, name, "web")
    assert not server.asked


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_white_space_around_a_token_is_left_out(server: Server, stop: StopSignal, end: str) -> None:
    """Files of tokens end with a line break more often than not; client-go trims them."""
    server.answer = refuse(200, b'{"metadata": {"resourceVersion": "7"}, "items": []}')
    client = client_of(server.url, f"secret{end}")
    with closing(transport.ApiListWatch(client, transport.Resource("", "v1", "pods"))) as pods:
        list_of(pods, stop)
    assert server.asked[0][2]["authorization"] == "Bearer secret"


@pytest.mark.parametrize("token", ["s3c\nr3t", "s3c\rr3t", "s3c\0r3t", "s3c\u20acr3t"])
def test_a_token_that_no_header_can_hold_is_not_told(
    server: Server, stop: StopSignal, token: str
) -> None:
    """What http.client raises quotes it, and ends in a log."""
    client = client_of(server.url, token)
    with (
        closing(transport.ApiListWatch(client, transport.Resource("", "v1", "pods"))) as pods,
        pytest.raises(ApiConnectionError, match="no HTTP header can hold") as raised,
    ):
        list_of(pods, stop)
    told = "".join(traceback.format_exception(raised.value))
    assert "s3c" not in told
    assert "r3t" not in told
    assert not server.asked


def test_selectors_hold_for_lists_and_watches(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    """A selector on the list only lets foreign objects in through the watch."""
    list_watch = make(label_selector="app in (a,b)", field_selector="spec.nodeName=n1")
    server.answer = refuse(200, b"{}")
    list_of(list_watch, stop, resource_version="", limit=0, continue_token="t o")  # noqa: S106
    watch = watch_of(
        list_watch, stop, send_initial_events=True, resource_version_match="NotOlderThan"
    )
    assert list(watch) == [{}]
    selectors = {"labelSelector": "app in (a,b)", "fieldSelector": "spec.nodeName=n1"}
    assert server.asked[0][1] == {**selectors, "continue": "t o"}
    assert server.asked[1][1] == {
        **selectors,
        "watch": "true",
        "resourceVersion": "10",
        "resourceVersionMatch": "NotOlderThan",
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }


def test_status_becomes_an_error(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    status = {
        "kind": "Status",
        "code": 410,
        "reason": "Expired",
        "message": "too old",
        "details": {"causes": [{"reason": "x"}]},
    }
    server.answer = refuse(410, json.dumps(status).encode(), Retry_After="7")
    for call in (list_of, watch_of):
        with pytest.raises(ApiStatusError, match="too old") as caught:
            call(make(), stop)
        error = caught.value
        assert (error.code, error.reason, error.retry_after) == (410, "Expired", 7.0)
        assert error.details["causes"] == [{"reason": "x"}]


def test_error_of_a_proxy_is_an_error_too(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    server.answer = refuse(502, b"<html>bad gateway</html>")
    with pytest.raises(ApiStatusError, match="HTTP 502: <html>bad gateway</html>") as caught:
        list_of(make(), stop)
    assert (caught.value.code, caught.value.reason) == (502, "")


def test_answer_that_is_no_json_is_told(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    server.answer = refuse(200, b"<html>")
    with pytest.raises(ApiDecodeError, match="<html>"):
        list_of(make(), stop)
    server.answer = refuse(200, b"[]")
    with pytest.raises(ApiDecodeError):
        list_of(make(), stop)


@pytest.mark.parametrize("body", [{"kind": "Status", "code": 403}, {"kind": "APIVersions"}])
def test_what_is_no_list_is_not_taken_for_an_empty_one(
    server: Server, make: Callable[..., Any], stop: StopSignal, body: dict[str, Any]
) -> None:
    """Else all that a cache has would be gone."""
    server.answer = refuse(200, json.dumps({**body, "metadata": {}}).encode())
    with pytest.raises((ApiStatusError, ApiDecodeError)):
        list_of(make(), stop)


def test_status_without_a_usable_code_has_that_of_the_answer(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    server.answer = refuse(503, b'{"kind": "Status", "code": "x"}')
    with pytest.raises(ApiStatusError) as caught:
        list_of(make(), stop)
    assert caught.value.code == 503


def test_server_without_a_scheme_is_reached(server: Server, stop: StopSignal) -> None:
    server.answer = refuse(200, b'{"metadata": {}, "items": []}')
    client = client_of(server.url.removeprefix("http://"))
    pods = transport.ApiListWatch(client, transport.Resource("", "v1", "pods"))
    assert list_of(pods, stop)["items"] == []
    pods.close()


def test_compressed_watch_is_read(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        chunk(handler, gzip.compress(line("ADDED", pod("a"))))
        chunk(handler, b"")

    server.answer = answer
    assert [each["type"] for each in watch_of(make(), stop)] == ["ADDED"]


def test_long_list_is_decoded_while_it_comes(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    pods = [pod(f"p{number}", labels={"long": "x" * 1000, "ü": "é"}) for number in range(6_000)]
    page = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods}
    body = json.dumps({**page, "more": [[]]}, ensure_ascii=False).encode()
    assert len(body) > transport.WHOLE_BYTES
    server.answer = refuse(200, body)
    list_watch = make()
    for _ in range(3):
        assert list_of(list_watch, stop) == page
    assert server.connections == 1, "each list is read to its end"
    server.answer = refuse(200, json.dumps({"items": pods, "metadata": {}}).encode())
    assert list_of(list_watch, stop) == {"items": pods, "metadata": {}}
    server.answer = refuse(200, body)
    server.answer = refuse(200, body[:-2] + b"?}")
    with pytest.raises(ApiDecodeError):
        list_of(list_watch, stop)
    server.answer = refuse(200, b"[" + body + b"]")
    with pytest.raises(ApiDecodeError):
        list_of(list_watch, stop)

    def cut(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        begin_chunks(handler)
        chunk(handler, body[: transport.WHOLE_BYTES + 100_000])
        handler.close_connection = True

    server.answer = cut
    with pytest.raises(ApiConnectionError):
        list_of(list_watch, stop)


def test_long_list_that_is_given_up_leaves_nothing_behind(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    pods = [pod(f"p{number}", labels={"long": "x" * 1000}) for number in range(20_000)]
    page = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods}
    server.answer = refuse(200, json.dumps(page).encode())
    list_watch = make()
    asked = {"resource_version": "0", "limit": 500, "continue_token": "", "stop": stop}
    items = list_watch.list_page(**asked)["items"]
    assert next(items) == pods[0]
    items.close()
    assert list_of(list_watch, stop) == page, "over another connection"
    items = list_watch.list_page(**asked)["items"]
    assert next(items) == pods[0]
    stop.set()
    with pytest.raises(ApiConnectionError):
        list(items)


@pytest.mark.parametrize("_", range(5))  # it depends on how full the buffers are
def test_server_is_rid_of_a_long_list_that_is_cut(_: int) -> None:
    stop = StopSignal(MonotonicClock())
    pods = [pod(f"p{number}", labels={"long": "x" * 1000}) for number in range(10_000)]
    page = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods}
    with closing(Server()) as server:
        server.answer = refuse(200, json.dumps(page).encode())
        pods_of = transport.Resource("", "v1", "pods")
        with closing(transport.ApiListWatch(client_of(server.url), pods_of)) as list_watch:
            asked = {"resource_version": "0", "limit": 500, "continue_token": "", "stop": stop}
            items = list_watch.list_page(**asked)["items"]
            next(items)
            stop.set()
            with pytest.raises(ApiConnectionError):
                list(items)
            started = time.monotonic()
            server.close()  # which waits for its threads
            assert time.monotonic() - started < 20


def test_refused_connection_is_told_apart(stop: StopSignal) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    list_watch = transport.ApiListWatch(
        client_of(f"http://127.0.0.1:{port}"), transport.Resource("", "v1", "pods")
    )
    for call in (list_of, watch_of):
        with pytest.raises(ApiConnectionRefusedError):
            call(list_watch, stop)


def test_host_that_is_not_there_is_no_timeout(stop: StopSignal) -> None:
    list_watch = transport.ApiListWatch(
        client_of("http://nowhere.invalid"), transport.Resource("", "v1", "pods")
    )
    with pytest.raises(ApiConnectionError, match=r"nowhere\.invalid") as caught:
        list_of(list_watch, stop)
    assert not isinstance(caught.value, ApiTimeoutError)


def test_events_come_one_by_one_however_they_are_cut(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    first, second = line("ADDED", pod("a")), line("MODIFIED", pod("a", rv="2"))
    go_on = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        begin_chunks(handler)
        chunk(handler, first)
        go_on.wait(SOON_S)
        for part in (second[:7], second[7:20], second[20:] + first[:5], first[5:]):
            chunk(handler, part)
        chunk(handler, b"")

    server.answer = answer
    events = iter(watch_of(make(), stop))
    assert next(events)["type"] == "ADDED", "it came before the next was sent"
    go_on.set()
    assert [each["type"] for each in events] == ["MODIFIED", "ADDED"]


def test_events_come_without_chunked_encoding(
    server: Server, make: Callable[..., Any], stop: StopSignal
) -> None:
    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(line("ADDED", pod("a")))
        server.leave.wait(0.2)
        handler.close_connection = True

    server.answer = answer
    assert [each["type"] for each in watch_of(make(), stop)] == ["ADDED"]


@pytest.mark.parametrize("chunked", [True, False])
def test_stream_cut_in_a_line_keeps_what_came(
    server: Server, make: Callable[..., Any], stop: StopSignal, chunked: bool
) -> None:
    whole = line("ADDED", pod("a"))

    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        if chunked:
            begin_chunks(handler)
            chunk(handler, whole + whole[:20])
        else:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(whole + whole[:20])
        handler.close_connection = True

    server.answer = answer
    events = iter(watch_of(make(), stop))
    assert next(events)["type"] == "ADDED"
    with pytest.raises(ApiConnectionError):
        next(events)


def test_broken_line_is_told(server: Server, make: Callable[..., Any], stop: StopSignal) -> None:
    server.answer = refuse(200, b'{"type": \n')
    with pytest.raises(ApiDecodeError):
        list(watch_of(make(), stop))


def silent(server: Server, *, after_headers: bool) -> Callable[..., None]:
    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        if after_headers:
            begin_chunks(handler)
        server.leave.wait(SOON_S)
        handler.close_connection = True

    return answer


@pytest.mark.parametrize("after_headers", [True, False])
def test_silent_server_costs_no_more_than_the_timeout(
    server: Server, make: Callable[..., Any], stop: StopSignal, after_headers: bool
) -> None:
    """An open socket without a word froze caches for hours elsewhere."""
    server.answer = silent(server, after_headers=after_headers)
    list_watch = make(read_timeout_s=0.2, watch_silence_s=0.2)
    started = time.monotonic()
    with pytest.raises(ApiTimeoutError):
        list_of(list_watch, stop)
    with pytest.raises(ApiTimeoutError):
        list(watch_of(list_watch, stop))
    assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("after_headers", [True, False])
def test_informer_stops_at_once_whatever_blocks(
    server: Server, make: Callable[..., Any], verb: str, after_headers: bool
) -> None:
    quiet = silent(server, after_headers=after_headers)
    page = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'

    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        if ("watch" in query) is (verb == "watch"):
            quiet(handler, query)
        else:
            send(handler, page)

    server.answer = answer
    with DictStore() as store:
        informer = SharedInformer(make(), store, use_watch_list=False)
        informer.start()
        deadline = time.monotonic() + SOON_S
        while len(server.asked) < (1 if verb == "list" else 2) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        started = time.monotonic()
        informer.stop()
        assert time.monotonic() - started < 1
        assert not [each for each in threading.enumerate() if each.name.startswith("informer")]


@pytest.fixture
def unanswered() -> Iterator[Callable[..., str]]:
    """Give addresses at which no connection comes about, or nothing comes over it."""
    with ExitStack() as sockets:

        def address(*, accepting: bool) -> str:
            listening = sockets.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            for _ in range(0 if accepting else 8):  # more than fit: what comes then is ignored
                filling = sockets.enter_context(socket.socket())
                filling.setblocking(False)
                filling.connect_ex(listening.getsockname())
            return f"127.0.0.1:{listening.getsockname()[1]}"

        yield address


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("accepting", [True, False])
def test_informer_stops_at_once_while_a_connection_is_made(
    unanswered: Callable[..., str], scheme: str, accepting: bool
) -> None:
    """Neither a host that is not there nor one that never ends a TLS handshake holds it up."""
    client = client_of(f"{scheme}://{unanswered(accepting=accepting)}")
    list_watch = transport.ApiListWatch(client, transport.Resource("", "v1", "pods"))
    with DictStore() as store:
        informer = SharedInformer(list_watch, store)
        informer.start()
        time.sleep(0.2)
        started = time.monotonic()
        informer.stop()
        assert time.monotonic() - started < 0.7
        assert not [each for each in threading.enumerate() if each.name.startswith("informer")]
    list_watch.close()


@pytest.mark.parametrize(("scheme", "accepting"), [("http", False), ("https", True)])
def test_connection_that_is_not_made_in_time_is_given_up(
    unanswered: Callable[..., str], stop: StopSignal, scheme: str, accepting: bool
) -> None:
    client = client_of(f"{scheme}://{unanswered(accepting=accepting)}")
    pods = transport.Resource("", "v1", "pods")
    list_watch = transport.ApiListWatch(client, pods, connect_timeout_s=0.2)
    started = time.monotonic()
    with pytest.raises(ApiTimeoutError):
        list_of(list_watch, stop)
    assert time.monotonic() - started < SOON_S
    list_watch.close()


def test_informer_follows_a_server(server: Server, make: Callable[..., Any]) -> None:
    sent = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        begin_chunks(handler)
        mark = {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}
        mark["metadata"]["resourceVersion"] = "10"  # type: ignore[assignment]
        chunk(handler, line("ADDED", pod("a")) + line("BOOKMARK", mark))
        sent.wait(SOON_S)
        chunk(handler, line("DELETED", pod("a", rv="11")) + line("ADDED", pod("b", rv="12")))
        server.leave.wait(SOON_S)
        handler.close_connection = True

    server.answer = answer
    with DictStore() as store, SharedInformer(make(), store) as informer:
        assert informer.wait_for_sync(SOON_S)
        assert store.list_keys() == ["default/a"]
        sent.set()
        deadline = time.monotonic() + SOON_S
        while store.list_keys() != ["default/b"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.list_keys() == ["default/b"]
        assert informer.last_sync_resource_version() == "12"
        server.leave.set()


def test_kubeconfig_is_used(tmp_path: Any) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    client = transport.connect(str(path))
    assert client.configuration.host == "http://127.0.0.1:1"
    assert client.configuration.auth_settings()["BearerToken"]["value"] == "Bearer t"
    with pytest.raises(KubeConfigError, match="no context 'two': it has one"):
        transport.connect(str(path), context="two")
