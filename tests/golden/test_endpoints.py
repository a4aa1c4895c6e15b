"""The Endpoints controller against what Kubernetes 1.36's own wrote, on every backend.

A case is one sync, or several of one controller with changes in between; each must make the writes
that upstream made, leave the same object, and fail with the same error. The notes in the file
explain its form.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpoints.controller import ENDPOINTS
from sqlcache.controllers.endpoints.subsets import Packing, Port, port_text, subset_text
from sqlcache.controllers.hashing import fnv1a_128
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, Objects
from sqlcache.store.api import Indexer
from sqlcache.testing.scripted import ScriptedListWatch
from tests.backends import BACKENDS
from tests.golden.recording import RecordingApi, failures, opened, text_of

Case = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(os.environ.get("SQLCACHE_GOLDEN", ROOT / ".." / "shared" / "golden")) / "endpoints.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}
CASES: list[Case] = VECTORS.get("cases", [])
HASHING: dict[str, list[Case]] = VECTORS.get("hashing", {})

RESOURCES = ("pods", "services", "endpoints")

pytestmark = pytest.mark.skipif(not VECTORS, reason=f"no golden vectors: {FILE} is absent")


class Replay:
    """One controller, its caches, and the cluster that they are caches of."""

    def __init__(self, case: Case, stores: Mapping[str, Indexer]) -> None:
        self._input = case["input"]
        self._key: str = self._input["serviceKey"]
        self._namespace, self._name = self._key.split("/")
        self._pods = {_key(pod): pod for pod in self._input["pods"] or ()}
        self._service: Object | None = self._input["service"]
        self._api = RecordingApi(numbered="steps" in self._input)
        if self._input["existingEndpoints"]:
            self._api.put(ENDPOINTS, self._input["existingEndpoints"])
        self._stores = stores
        pods, services, endpoints = (
            SharedInformer(ScriptedListWatch(), stores[name]) for name in RESOURCES
        )
        self._controller = EndpointsController(
            self._api, pods=pods, services=services, endpoints=endpoints
        )

    def run(self) -> Iterator[Case]:
        """Yield what came of each sync."""
        yield self._sync(0)
        for number, step in enumerate(self._input.get("steps", ()), start=1):
            self._change(step)
            yield self._sync(number, is_late=_keeps_stale(step))

    def _change(self, step: Case) -> None:
        if "pods" in step:
            self._pods = {_key(pod): pod for pod in step["pods"] or ()}
        self._pods.update((_key(pod), pod) for pod in step.get("podsPut") or ())
        for name in step.get("podsRemove") or ():
            self._pods.pop(f"{self._namespace}/{name}", None)
        if "service" in step:
            self._service = step["service"]
        if step.get("serviceDeleted"):
            self._service = None
        for endpoints in _as_list(step.get("endpointsPut")):
            self._api.put(ENDPOINTS, endpoints)
        if step.get("endpointsDeleted"):
            self._api.remove(ENDPOINTS, self._namespace, self._name)

    def _sync(self, number: int, *, is_late: bool = False) -> Case:
        """Bring the caches up to date, or leave the one of Endpoints behind, and sync."""
        self._fill("pods", list(self._pods.values()))
        self._fill("services", [self._service] if self._service else [])
        if not is_late:
            self._fill("endpoints", self._api.list(ENDPOINTS))
        self._api.actions.clear()
        self._api.fail(failures(self._input, number))
        error = None
        try:
            self._controller.sync(self._key)
        except Exception as raised:  # noqa: BLE001 - the case says which it should be
            error = str(raised)
        found = [
            each for each in self._api.list(ENDPOINTS) if each["metadata"]["name"] == self._name
        ]
        return {
            "actions": list(self._api.actions),
            "endpoints": found[0] if found else None,
            "error": error,
        }

    def _fill(self, resource: str, objs: Objects) -> None:
        self._stores[resource].replace(copy.deepcopy(objs), "1")


def _keeps_stale(step: Case) -> bool:
    return bool(step.get("keepInformerStale") or step.get("keepEndpointsInformerStale"))


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _comparable(outcome: Case, *, ordered: bool) -> Case:
    """Return an outcome with the order of lists taken out, where that is not determined."""
    endpoints = copy.deepcopy(outcome["endpoints"])
    if endpoints and not ordered:
        subsets = endpoints.get("subsets") or []
        for subset in subsets:
            for items in subset.values():
                items.sort(key=text_of)
        subsets.sort(key=text_of)
    return {"actions": outcome["actions"], "endpoints": endpoints, "error": outcome["error"]}


@pytest.fixture(scope="module", params=BACKENDS)
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Indexer]]:
    with opened(request.param, tmp_path_factory.mktemp("stores"), RESOURCES) as stores:
        yield stores


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_sync_leaves_and_writes_what_upstream_does(
    case: Case, stores: dict[str, Indexer]
) -> None:
    expected = case["output"].get("steps") or [case["output"]]
    ordered = case["deterministic"]
    outcomes = list(Replay(case, stores).run())
    assert len(outcomes) == len(expected)
    for number, (outcome, right) in enumerate(zip(outcomes, expected, strict=True)):
        assert _comparable(outcome, ordered=ordered) == _comparable(right, ordered=ordered), (
            f"sync {number}"
        )


@pytest.mark.parametrize("sample", HASHING.get("ports", ()), ids=lambda sample: sample["hash"])
def test_ports_hash_as_in_go(sample: Case) -> None:
    text = port_text(Port.of(sample["port"]))
    assert text == sample["text"]
    assert f"{fnv1a_128(text):032x}" == sample["hash"]


@pytest.mark.parametrize("sample", HASHING.get("subsets", ()), ids=lambda sample: sample["hash"])
def test_subsets_hash_as_in_go(sample: Case) -> None:
    text = subset_text(sample["subset"])
    assert text == sample["text"]
    assert f"{fnv1a_128(text):032x}" == sample["hash"]


@pytest.mark.parametrize("sample", HASHING.get("subsets", ()), ids=lambda sample: sample["hash"])
def test_a_packed_subset_packs_to_itself(sample: Case) -> None:
    assert Packing.of([sample["subset"]]).subsets() == [sample["subset"]]
