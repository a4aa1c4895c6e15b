"""Informers against what client-go's did, on every backend.

Each scenario scripts the server's answers and what a user does, and expects the requests made, the
notifications of each handler and the state in between; the file's notes explain the form. Time is
virtual, so all of them together take seconds.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlcache.errors import ApiStatusError, InformerStateError
from sqlcache.informer import ObjectType, Registration, SharedInformer
from sqlcache.objects import DeletedFinalStateUnknown, meta_namespace_index_func
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.scripted import Answer, Request, ScriptedListWatch
from tests.backends import BACKENDS

Case = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(os.environ.get("SQLCACHE_GOLDEN", ROOT / ".." / "shared" / "golden")) / "informer.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}

pytestmark = pytest.mark.skipif(not VECTORS, reason=f"no golden vectors: {FILE} is absent")

FIRST_BACKOFF_S = 0.8
AT_ONCE_S = 0.001  # rounding of the virtual clock


def status(
    code: int, reason: str, message: str, causes: list[Case] | None = None, **details: Any
) -> Case:
    details = {**details, **({"causes": causes} if causes else {})}
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


STATUSES = {
    "expired": status(410, "Expired", "too old resource version: 1 (100)"),
    "gone": status(410, "Gone", "gone"),
    "internal": status(500, "InternalError", "Internal error occurred: boom"),
    "tooManyRequests": status(429, "TooManyRequests", "slow down", retryAfterSeconds=1),
    "forbidden": status(403, "Forbidden", "pods is forbidden: no"),
    "invalid": status(422, "Invalid", "invalid"),
    "methodNotSupported": status(405, "MethodNotAllowed", "the method is not supported"),
    "timeout": status(504, "Timeout", "timeout"),
    "tooLargeRV": status(
        504,
        "Timeout",
        "Timeout: Too large resource version: 10, current: 5",
        [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    ),
}


def error(kind: str) -> Exception:
    if kind == "connRefused":
        return ConnectionRefusedError('Get "https://x/": connection refused')
    if kind == "connReset":
        return ConnectionResetError('Get "https://x/": connection reset by peer')
    return ApiStatusError.from_status(STATUSES[kind])


def pod_of(case: Case) -> Case:
    meta = {field: case[field] for field in ("namespace", "name", "uid") if case.get(field)}
    meta["resourceVersion"] = case["rv"]
    meta |= {field: case[field] for field in ("labels", "annotations") if field in case}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def event_of(case: Case) -> Case:
    kind = case["type"]
    if kind == "ERROR":
        return {"type": kind, "object": STATUSES[case["error"]]}
    if kind == "WRONGTYPE":
        node = {"name": "n", "resourceVersion": "77"}
        return {
            "type": "ADDED",
            "object": {"apiVersion": "v1", "kind": "Node", "metadata": node},
        }
    return {"type": kind, "object": pod_of(case["object"])}


def list_answer(case: Case) -> Answer:
    held = case.get("held", False)
    if "error" in case:
        return Answer(error=error(case["error"]), held=held)
    meta = {"resourceVersion": case["resourceVersion"]}
    if case.get("continue"):
        meta["continue"] = case["continue"]
    items = [pod_of(item) for item in case.get("items") or []]
    content = {"apiVersion": "v1", "kind": "PodList", "metadata": meta, "items": items}
    return Answer(content, held=held)


def watch_answer(case: Case) -> Answer:
    held = case.get("held", False)
    if "error" in case:
        return Answer(error=error(case["error"]), held=held)
    events = [event_of(each) for each in case.get("events") or []]
    return Answer(events, held=held, ends=case.get("end") == "close")


def strip_labels(obj: Case) -> Case:
    meta = {field: value for field, value in obj["metadata"].items() if field != "labels"}
    return {**obj, "metadata": meta}


def fail_on_bad_label(obj: Case) -> Case:
    if "bad" in (obj["metadata"].get("labels") or {}):
        raise ValueError(f"transform refused {obj['metadata']['name']}")
    return obj


TRANSFORMS = {"stripLabels": strip_labels, "failOnBadLabel": fail_on_bad_label}


def app_label(obj: Case) -> list[str]:
    labels = obj["metadata"].get("labels") or {}
    return [labels["app"]] if "app" in labels else []


class Gate:
    """Lets threads through, or makes them wait on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._changed = clock.condition()
        self._shut = False

    def set(self, *, shut: bool) -> None:
        with self._changed:
            self._shut = shut
            self._changed.notify_all()

    def pass_through(self) -> None:
        with self._changed:
            while self._shut:
                self._changed.wait()


class Recorder:
    """A handler that writes down what it is told."""

    def __init__(self, clock: VirtualClock, *, labels: bool) -> None:
        self.gate = Gate(clock)
        self.seen: list[Case] = []
        self._labels = labels

    def on_add(self, obj: Case, is_in_initial_list: bool, /) -> None:
        self._record(type="add", isInInitialList=is_in_initial_list, **self._facts("new", obj))

    def on_update(self, old: Case, new: Case, /) -> None:
        self._record(type="update", **self._facts("old", old), **self._facts("new", new))

    def on_delete(self, obj: Any, /) -> None:
        if isinstance(obj, DeletedFinalStateUnknown):
            self._record(type="tombstone", **{**self._facts("old", obj.obj), "key": obj.key})
        else:
            self._record(type="delete", **self._facts("old", obj))

    def _record(self, **facts: Any) -> None:
        self.gate.pass_through()
        self.seen.append(facts)

    def _facts(self, age: str, obj: Case) -> Case:
        meta = obj["metadata"]
        facts: Case = {
            f"{age}RV": meta["resourceVersion"],
            f"{age}Key": f"{meta['namespace']}/{meta['name']}",
        }
        if meta["uid"] != f"u-{meta['name']}":
            facts[f"{age}UID"] = meta["uid"]
        if self._labels:
            facts[f"{age}Labels"] = meta.get("labels") or {}
        return facts


def normalised(notification: Case) -> Case:
    """Return a recorded notification in the form of the vectors: one key."""
    facts = dict(notification)
    keys = {facts.pop(name) for name in ("oldKey", "newKey") if name in facts}
    keys |= {facts["key"]} if "key" in facts else set()
    assert len(keys) == 1, f"different keys in one notification: {notification}"
    return {**facts, "key": keys.pop()}


class Replay:
    """One scenario on one store."""

    def __init__(self, case: Case, open_store: Callable[..., Any], folder: Path) -> None:
        script = case["script"]
        self.case, self.script = case, script
        self.clock = VirtualClock()
        self.store_gate = Gate(self.clock)
        self.list_watch = ScriptedListWatch(
            self.clock,
            [list_answer(each) for each in script.get("lists") or []],
            [watch_answer(each) for each in script.get("watches") or []],
            supports_watch_list=not script.get("clientDeclaresNoWatchList"),
        )
        self.index_functions = {
            "late": meta_namespace_index_func,
            "namespace": meta_namespace_index_func,
            "byLabelApp": app_label,
            "gate": self._gate_index,
        }
        indexers = {name: self.index_functions[name] for name in script.get("indexers") or []}
        self.store = open_store(folder, indexers=indexers)
        self.watch_errors: list[str] = []
        self.informer = SharedInformer(
            self.list_watch,
            self.store,
            description="*v1.Pod",
            expected=ObjectType("v1", "Pod"),
            resync_period_s=case["resync"],
            transform=TRANSFORMS[script["transform"]] if script.get("transform") else None,
            use_watch_list=case["watchListEnabled"],
            on_watch_error=lambda error: self.watch_errors.append(str(error)),
            clock=self.clock,
            rng=random.Random(case["id"]),
        )
        self.handlers: dict[str, Recorder] = {}
        self.registrations: dict[str, Registration] = {}
        self.checks: list[Case] = []

    def _gate_index(self, obj: Case) -> list[str]:
        self.store_gate.pass_through()
        return ["x"]

    def run(self) -> None:
        try:
            for number, action in enumerate(self.script["actions"]):
                self._do(number, action)
                self.clock.settle()
            self._compare()
        finally:
            for recorder in self.handlers.values():
                recorder.gate.set(shut=False)
            self.store_gate.set(shut=False)
            self.informer.stop()
            self.store.close()

    def _do(self, number: int, action: Case) -> None:
        name = action["do"]
        handler = action.get("handler", "")
        if name == "addHandler":
            self._try(number, lambda: self._add_handler(handler, action), only_failure=True)
        elif name == "removeHandler":
            registration = self.registrations[handler]
            self._try(number, lambda: self.informer.remove_handler(registration))
        elif name == "addIndexers":
            added = {action["index"]: self.index_functions[action["index"]]}
            self._try(number, lambda: self.informer.add_indexers(added))
        elif name == "setTransform":
            transform = TRANSFORMS[action.get("transform", "stripLabels")]
            self._try(number, lambda: self.informer.set_transform(transform))
        elif name == "check":
            self.checks.append({"action": number, **self._state()})
        else:
            self._act(name, action)

    def _act(self, name: str, action: Case) -> None:
        if name in ("blockHandler", "unblockHandler"):
            self.handlers[action["handler"]].gate.set(shut=name == "blockHandler")
        elif name in ("holdStore", "releaseStore"):
            self.store_gate.set(shut=name == "holdStore")
        elif name == "start":
            self.list_watch.mark()
            self.informer.start()
        elif name == "waitSync":
            self.clock.run_until(self.informer.has_synced)
        elif name == "waitRequests":
            self.clock.run_until(lambda: len(self.list_watch.requests) >= action["count"])
        elif name == "send":
            self.list_watch.send(*map(event_of, action["events"]))
        elif name == "closeWatch":
            self.list_watch.end_watch()
        elif name == "release":
            self.list_watch.release()
        elif name == "sleep":
            self.clock.advance(action["ms"] / 1000)
        elif name == "stop":
            self.informer.stop()
        else:
            raise AssertionError(f"unknown action {name}")

    def _add_handler(self, name: str, action: Case) -> None:
        recorder = self.handlers.get(name) or Recorder(
            self.clock, labels=bool(self.script.get("transform"))
        )
        self.registrations[name] = self.informer.add_handler(
            recorder, resync_period_s=action.get("resyncS")
        )
        self.handlers[name] = recorder

    def _try(self, number: int, call: Callable[[], None], *, only_failure: bool = False) -> None:
        entry: Case = {"action": number}
        try:
            call()
        except (InformerStateError, ValueError) as raised:
            entry["error"] = str(raised)
        if "error" in entry or not only_failure:
            self.checks.append(entry)

    def _state(self) -> Case:
        return {
            "hasSynced": self.informer.has_synced(),
            "isStopped": self.informer.is_stopped(),
            "store": self._contents(),
            "lastSyncResourceVersion": self.informer.last_sync_resource_version(),
            "storeResourceVersion": self.store.last_store_sync_resource_version(),
            "handlersHaveSynced": {
                name: registration.has_synced() for name, registration in self.registrations.items()
            },
            "notificationsSoFar": {
                name: len(recorder.seen) for name, recorder in self.handlers.items()
            },
            "requestsSoFar": len(self.list_watch.requests),
            "indexes": {
                name: {
                    value: self.store.index_keys(name, value)
                    for value in self.store.list_index_func_values(name)
                }
                for name in self.store.get_indexers()
            },
        }

    def _contents(self) -> list[str]:
        metas = [obj["metadata"] for obj in self.store.list()]
        return sorted(f"{m['namespace']}/{m['name']}@{m['resourceVersion']}" for m in metas)

    def _compare(self) -> None:
        expect = self.case["expect"]
        assert [described(each) for each in self.list_watch.requests] == [
            expected_request(each) for each in expect["requests"]
        ]
        for request, expected in zip(self.list_watch.requests, expect["requests"], strict=True):
            compare_wait(request, expected["waitMS"])
        assert {name for name, seen in expect["notifications"].items() if seen} == {
            name for name, recorder in self.handlers.items() if recorder.seen
        }
        for name, expected in expect["notifications"].items():
            seen = self.handlers[name].seen if name in self.handlers else []
            compare_notifications(
                [normalised(each) for each in seen],
                expected,
                in_order=self.case["deterministic"],
            )
        self._compare_checks(expect["checks"])
        assert self._contents() == expect["finalStore"]
        final = self._state()
        for field in ("lastSyncResourceVersion", "storeResourceVersion", "hasSynced"):
            assert final[field] == expect[field], field
        assert list(map(shape, self.watch_errors)) == list(map(shape, expect["watchErrors"]))

    def _compare_checks(self, expected: list[Case]) -> None:
        assert [each["action"] for each in self.checks] == [each["action"] for each in expected]
        for check, wanted in zip(self.checks, expected, strict=True):
            for field, value in wanted.items():
                if field == "error":
                    assert check["error"].split()[-6:] == value.split()[-6:]
                elif field == "indexes":
                    assert {name: check["indexes"][name] for name in value} == value
                else:
                    assert check[field] == value, (field, check["action"])
            assert ("error" in check) is ("error" in wanted), check


def described(request: Request) -> Case:
    options = request.options
    described: Case = {
        "verb": request.verb,
        "answer": request.answer,
        "resourceVersion": options["resource_version"],
    }
    names = {
        "limit": "limit",
        "continue_token": "continue",
        "resource_version_match": "match",
        "send_initial_events": "sendInitialEvents",
        "allow_watch_bookmarks": "allowWatchBookmarks",
    }
    described |= {name: options[key] for key, name in names.items() if options.get(key)}
    if request.verb == "watch":
        assert 300 <= options["timeout_seconds"] <= 600
        described["timeoutSeconds"] = "300..600"
    return described


def expected_request(expected: Case) -> Case:
    return {field: value for field, value in expected.items() if field != "waitMS"}


def compare_wait(request: Request, expected_ms: list[float]) -> None:
    if expected_ms[1] == 0:
        assert request.waited < AT_ONCE_S, f"{request} was to be made at once"
    elif expected_ms[0] >= FIRST_BACKOFF_S * 1000:
        assert request.waited >= FIRST_BACKOFF_S, f"{request} was to wait for the back-off"


def compare_notifications(seen: list[Case], expected: list[Case], *, in_order: bool) -> None:
    if in_order:
        assert seen == expected
    else:
        assert by_key(seen) == by_key(expected)


def by_key(notifications: list[Case]) -> dict[str, list[Case]]:
    sequences: dict[str, list[Case]] = defaultdict(list)
    for each in notifications:
        sequences[each["key"]].append(each)
    return sequences


KNOWN_TEXTS = {each["message"] for each in STATUSES.values()} - {
    STATUSES[kind]["message"]
    for kind in ("gone", "invalid", "methodNotSupported", "timeout", "tooLargeRV")
}
PREFIXES = ("failed to list *v1.Pod: ", "unable to sync list result: ")


def shape(text: str) -> tuple[str, str]:
    """Return where an error came from, and its text if the vectors' notes tell it."""
    prefix = next((each for each in PREFIXES if text.startswith(each)), "")
    rest = text.removeprefix(prefix)
    return prefix, rest if rest in KNOWN_TEXTS or "transform" in rest else ""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["name"]) for case in VECTORS.get("scenarios", [])]
)
def test_informer_does_as_client_go(case: Case, backend: str, tmp_path: Path) -> None:
    Replay(case, BACKENDS[backend], tmp_path).run()
