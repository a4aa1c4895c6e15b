"""The test API server against what a real kube-apiserver answered to the same requests.

The exchanges are replayed in order against one server. Names made by generateName, uids,
resourceVersions and continue tokens of the recording are replaced by ours as they become known;
times, addresses and the wording of messages are not compared. What the recording does between its
exchanges is written down in BEFORE and MEANWHILE.

Watches are shortened: the recording waits for seconds where nothing comes. Here a watch is read
until as many events came as were recorded and all that goes on meanwhile is done, and then for a
moment more, in which nothing may come; one that brings fewer ends by its timeoutSeconds.

SQLCACHE_GOLDEN names the folder of the vectors; the default is ../shared/golden beside the
repository.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from sqlcache.testing.apiserver import ApiServer

Exchange = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(os.environ.get("SQLCACHE_GOLDEN", ROOT / ".." / "shared" / "golden")) / "apiserver.json"
RECORDED: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}
EXCHANGES: list[Exchange] = RECORDED.get("exchanges", [])

# The only exchanges answered differently: what is not served, and the answer given instead.
NO_TABLES = "tables are not served: 406, or the plain object if the client takes it, too"
EXCEPTIONS: dict[str, tuple[int, str]] = {
    "list-table": (406, NO_TABLES),
    "list-table-fallback": (200, NO_TABLES),
    "watch-table": (406, NO_TABLES),
    "list-yaml": (406, "YAML is not served"),
}
# Documents of which the resources served are compared, not the others of a whole cluster.
SUBSETS = {"discovery-api-v1": "name", "discovery-aggregated": "resource"}

TOKEN = "token-of-the-replay"  # noqa: S105 (of a server that lives for one test)
NEVER = 10_000_000  # larger resourceVersions are meant to be in the future
PODS = "/api/v1/namespaces/wl/pods"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/wl/endpointslices"
MERGE = "application/merge-patch+json"
QUIET_S = 0.15  # what happened comes within milliseconds: enough to see what should not come

pytestmark = [
    pytest.mark.skipif(not EXCHANGES, reason=f"no golden vectors: {FILE} is absent"),
    pytest.mark.xdist_group("golden-apiserver"),  # each exchange needs all before it
]


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


class Watched:
    """What a watch is read for: the events recorded, and the end of what happens meanwhile."""

    def __init__(self, events: list[Exchange], meanwhile: list[threading.Timer]) -> None:
        self._events = len(without_bookmarks(events))
        self._bookmark = bool(plain_bookmarks(events))
        self._meanwhile = meanwhile

    def read(self, response: http.client.HTTPResponse, connection: socket.socket) -> bytes:
        """Return what comes until then and in a moment more, or until the server ends it."""
        read: list[bytes] = []
        end: float | None = None
        while end is None or end > time.monotonic():
            if end is None and self._complete(read):
                for thread in self._meanwhile:
                    thread.join()
                end = time.monotonic() + QUIET_S
            if end is not None:
                connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                read.append(response.readline())
            except TimeoutError:
                break
            if not read[-1]:
                break
        return b"".join(read)

    def _complete(self, read: list[bytes]) -> bool:
        events = [json.loads(line) for line in read]
        bookmarks = plain_bookmarks(events)
        enough = len(events) - len(bookmarks) >= self._events
        return enough and (bool(bookmarks) or not self._bookmark)


class Replay:
    """One server, and how far the recording has been replayed against it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.answers: list[Exchange] = []
        self.names: dict[str, str] = {}  # recorded names and uids -> ours
        self.versions: dict[int, str] = {}
        self.tokens: dict[str, str] = {}

    def answer(self, index: int) -> Exchange:
        while len(self.answers) <= index:
            exchange = EXCHANGES[len(self.answers)]
            for act in BEFORE.get(exchange["id"], []):
                act(self)
            answer = self.run(exchange)
            self.learn(exchange, answer)
            self.answers.append(answer)
        return self.answers[index]

    # Requests ----------------------------------------------------------------------------------

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        answer = self.send(method, path, body, {"Content-Type": content_type})
        assert answer["status"] < 300, answer
        return answer["body"]

    def send(
        self,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str],
        token: bool = True,
        watched: Watched | None = None,
    ) -> Exchange:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        if token:
            headers = {"Authorization": f"Bearer {TOKEN}", **headers}
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        if watched and response.status == 200:
            content = watched.read(response, connection.sock)
        else:
            content = response.read()
        answer = {
            "status": response.status,
            "headers": dict(response.headers),
            "body": parsed(content),
        }
        response.close()  # a watch may go on
        connection.close()
        return answer

    def run(self, exchange: Exchange) -> Exchange:
        request = exchange["request"]
        path, _, query = request["path"].partition("?")
        for old, new in self.names.items():
            path = path.replace(old, new)
        path = f"{path}?{self.ours(query, exchange)}" if query else path
        headers = dict(request.get("headers") or {})
        if request.get("contentType"):
            headers["Content-Type"] = request["contentType"]
        body = self.our_object(request.get("body"))
        threads = [threading.Timer(0.15, act, [self]) for act in MEANWHILE.get(exchange["id"], [])]
        for thread in threads:
            thread.start()
        watched = Watched(exchange["events"], threads) if "events" in exchange else None
        answer = self.send(request["method"], path, body, headers, bool(request["token"]), watched)
        for thread in threads:
            thread.join()
        if "events" in exchange and answer["status"] == 200:
            text = answer["body"]
            lines = text.splitlines() if isinstance(text, str) else [json.dumps(text)]
            answer["events"] = [json.loads(line) for line in lines]
        return answer

    def ours(self, query: str, exchange: Exchange) -> str:
        translated = []
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name == "resourceVersion":
                value = self.our_version(value)
            elif name == "continue":
                value = self.our_token(value)
            elif name == "timeoutSeconds":
                value = "3" if plain_bookmarks(exchange["events"]) else "1"
            translated.append((name, value))
        return urlencode(translated)

    def our_version(self, text: str) -> str:
        """Return our resourceVersion for a recorded one: that of the last object known by then."""
        if not text.isdecimal() or int(text) >= NEVER or int(text) < min(self.versions):
            return text
        if int(text) > max(self.versions):
            return self.server.resource_version
        return self.versions[max(each for each in self.versions if each <= int(text))]

    def our_token(self, token: str) -> str:
        if token in self.tokens or not token.startswith("ey"):
            return self.tokens.get(token, token)
        fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if fields["rv"] > 0:
            fields["rv"] = int(self.our_version(str(fields["rv"])))
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    def our_object(self, body: Any) -> Any:
        """Return a body with our uid and resourceVersion in the place of recorded ones."""
        if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
            return body
        meta = {name: self.names.get(str(value), value) for name, value in body["metadata"].items()}
        version = meta.get("resourceVersion", "")
        if version.isdecimal() and int(version) in self.versions:
            meta["resourceVersion"] = self.versions[int(version)]
        return {**body, "metadata": meta}

    # What becomes known ------------------------------------------------------------------------

    def learn(self, exchange: Exchange, answer: Exchange) -> None:
        for theirs, ours in pairs(exchange, answer):
            theirs, ours = theirs.get("metadata") or {}, ours.get("metadata") or {}
            if theirs.get("generateName") and "name" in ours:
                self.names[theirs["name"]] = ours["name"]
            if theirs.get("uid") and ours.get("uid"):
                self.names[theirs["uid"]] = ours["uid"]
            if theirs.get("resourceVersion") and ours.get("resourceVersion"):
                self.versions[int(theirs["resourceVersion"])] = ours["resourceVersion"]
            if theirs.get("continue") and ours.get("continue"):
                self.tokens[theirs["continue"]] = ours["continue"]


def pairs(exchange: Exchange, answer: Exchange) -> Iterator[tuple[Any, Any]]:
    """Yield the recorded and our object of the same place in two answers."""
    theirs, ours = exchange.get("body"), answer.get("body")
    if isinstance(theirs, dict) and isinstance(ours, dict):
        yield theirs, ours
        if isinstance(theirs.get("items"), list):
            yield from zip(theirs["items"], ours.get("items") or [], strict=False)
    for event, our_event in zip(
        without_bookmarks(exchange.get("events") or []),
        without_bookmarks(answer.get("events") or []),
        strict=False,
    ):
        yield event.get("object") or {}, our_event.get("object") or {}


def plain_bookmarks(events: list[Exchange]) -> list[Exchange]:
    return [
        event
        for event in events
        if event.get("type") == "BOOKMARK" and not event["object"]["metadata"].get("annotations")
    ]


def without_bookmarks(events: list[Exchange]) -> list[Exchange]:
    dropped = plain_bookmarks(events)
    return [event for event in events if event not in dropped]


# What the recording does besides its exchanges ---------------------------------------------------

Act = Callable[[Replay], object]


def patch(name: str, labels: dict[str, str]) -> Act:
    body = {"metadata": {"labels": labels}}
    return lambda replay: replay.call("PATCH", f"{PODS}/{name}", body, MERGE)


def pod(name: str, **meta: Any) -> Exchange:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-a"}
    return {"metadata": {"name": name, "labels": {"app": "web"}, **meta}, "spec": spec}


def life_of_w1(replay: Replay) -> None:
    path = f"{PODS}/w1"
    replay.call("POST", PODS, pod("w1"))
    patch("w1", {"app": "db"})(replay)
    patch("w1", {"app": "web"})(replay)
    replay.call("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, MERGE)
    replay.call("DELETE", path)
    replay.call("DELETE", f"{path}?gracePeriodSeconds=0")


def life_of_f1(replay: Replay) -> None:
    path = f"{PODS}/f1"
    replay.call("POST", PODS, pod("f1", finalizers=["example.com/hold"]))
    replay.call("DELETE", f"{path}?gracePeriodSeconds=0")
    replay.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


def life_of_a_slice(replay: Replay) -> None:
    path = f"{SLICES}/es"
    slice_ = {"metadata": {"name": "es"}, "addressType": "IPv4", "endpoints": []}
    replay.call("POST", SLICES, slice_)
    replay.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    replay.call("PATCH", path, {"endpoints": [{"addresses": ["10.0.0.9"]}]}, MERGE)
    replay.call("DELETE", path)


def make_pod(replay: Replay) -> None:
    replay.call("POST", PODS, pod("p31"))


def remove_pod(replay: Replay) -> None:
    replay.call("DELETE", f"{PODS}/p31?gracePeriodSeconds=0")


def outrun(replay: Replay) -> None:
    patch("p1", {"y": "259"})(replay)
    patch("p2", {"z": "9"})(replay)
    replay.server.compact()


BEFORE: dict[str, list[Act]] = {
    "create-generate": [patch("p1", {"x": "129"})],
    "list-page-2": [make_pod],
    "list-page-selector": [remove_pod],
    "watch-table": [patch("p2", {"w": "4"})],
    "gone-watch": [outrun],
}
MEANWHILE: dict[str, list[Act]] = {
    "watch-rv": [life_of_w1],
    "watch-selector": [life_of_w1],
    "watch-field": [life_of_w1],
    "watch-field-phase": [life_of_w1],
    "watch-no-rv": [life_of_w1],
    "watch-bookmarks": [life_of_w1],
    "watchlist": [life_of_w1],
    "watch-legacy": [patch("p2", {"w": "2"})],
    "watch-partial": [patch("p2", {"w": "3"})],
    "watch-noop": [patch("p2", {"w": "4"})],
    "watch-finalizer": [life_of_f1],
    "watch-slices": [life_of_a_slice],
    "watch-all-namespaces": [patch("p2", {"w": "5"})],
    "watchlist-false": [patch("p2", {"w": "6"})],
}


# Comparison --------------------------------------------------------------------------------------

TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+|[\w.]+:\d+")


def comparable(value: Any, key: str = "") -> Any:
    """Return a value without what two servers need not have in common."""
    if isinstance(value, dict):
        return {
            name: comparable(each, name) for name, each in value.items() if name != "managedFields"
        }
    if isinstance(value, list):
        return [comparable(each, key) for each in value]
    if key in ("uid", "resourceVersion", "continue", "message"):
        return f"<{key}>"
    if isinstance(value, str) and TIME.fullmatch(value):
        return "<time>"
    if key in ("clusterIP", "clusterIPs", "serverAddress") and ADDRESS.fullmatch(str(value)):
        return "<address>"
    return value


def named(value: Any, names: dict[str, str]) -> Any:
    """Return a recorded value with our generated names."""
    if isinstance(value, dict):
        return {key: named(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [named(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def served(document: Any, ours: Any, key: str) -> Any:
    """Return a document of all resources cut down to those that ours has."""
    known = {each[key] for each in entries(ours, key)}
    if isinstance(document, list):
        kept = [served(each, ours, key) for each in document]
        return [each for each in kept if each is not None]
    if isinstance(document, dict):
        if key in document and "verbs" in document and document[key] not in known:
            return None
        cut = {name: served(each, ours, key) for name, each in document.items()}
        if cut.get("resources") == [] or cut.get("versions") == []:
            return None
        return cut
    return document


def entries(document: Any, key: str) -> Iterator[dict[str, Any]]:
    if isinstance(document, list):
        for each in document:
            yield from entries(each, key)
    elif isinstance(document, dict):
        if key in document and "verbs" in document:
            yield document
        for each in document.values():
            yield from entries(each, key)


def by_group(document: Any) -> Any:
    items = document.get("items", [])
    return {**document, "items": sorted(items, key=lambda each: str(each["metadata"]))}


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with ApiServer(token=TOKEN, fresh_wait_s=0.2, bookmark_interval_s=0.3) as server:
        yield Replay(server)


@pytest.mark.parametrize(
    "index", [pytest.param(index, id=each["id"]) for index, each in enumerate(EXCHANGES)]
)
def test_answer_is_that_of_the_real_server(replay: Replay, index: int) -> None:
    exchange, answer = EXCHANGES[index], replay.answer(index)
    if exchange["id"] in EXCEPTIONS:
        assert answer["status"] == EXCEPTIONS[exchange["id"]][0]
        return
    assert answer["status"] == exchange["status"], answer
    for header in ("Content-Type", "Warning", "Retry-After"):
        if header in exchange["headers"]:
            assert answer["headers"].get(header) == exchange["headers"][header]
    if "events" in exchange and exchange["status"] == 200:
        wanted = without_bookmarks(exchange["events"])
        wanted = [{name: part for name, part in each.items() if name != "at"} for each in wanted]
        wanted = comparable(named(wanted, replay.names))
        assert comparable(without_bookmarks(answer["events"])) == wanted
        if plain_bookmarks(exchange["events"]):
            assert plain_bookmarks(answer["events"])
        return
    wanted, body = named(exchange["body"], replay.names), answer["body"]
    if exchange["id"] in SUBSETS:
        wanted = served(wanted, body, SUBSETS[exchange["id"]])
        wanted, body = by_group(wanted), by_group(body)
    if exchange["id"] == "discovery-version":
        wanted, body = sorted(wanted), sorted(body)
    assert comparable(body) == comparable(wanted)


def test_pages_of_a_list_have_one_resource_version(replay: Replay) -> None:
    ids = [each["id"] for each in EXCHANGES]
    pages = [replay.answer(ids.index(f"list-page-{page}")) for page in ("1", "2", "2-again")]
    assert len({page["body"]["metadata"]["resourceVersion"] for page in pages}) == 1


def test_exceptions_are_exchanges() -> None:
    assert EXCEPTIONS.keys() <= {each["id"] for each in EXCHANGES}
