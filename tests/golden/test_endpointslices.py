"""The EndpointSlice controller against what Kubernetes 1.36's own wrote, on every backend.

A case is one sync, or several of one controller with changes in between; each must make as many
writes as upstream made, leave the same slices, and fail with the same error. Where upstream's
outcome is not determined, because it goes through a map, only the endpoints of each set of ports
and the sizes of slices count; where not even they are, the hints do not. The notes in the file
explain its form.
"""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.controllers.endpointslice.slices import ENDPOINT_SLICES
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, Objects, meta_namespace_key_func
from sqlcache.store.api import Indexer
from sqlcache.testing.scripted import ScriptedListWatch
from tests.backends import BACKENDS
from tests.golden.recording import RecordingApi, failures, opened, show, text_of

Case = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("SQLCACHE_GOLDEN", ROOT / ".." / "shared" / "golden"))
FILE = FOLDER / "endpointslices.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}
CASES: list[Case] = VECTORS.get("cases", [])
RESOURCES = ("pods", "services", "nodes", "endpointslices")

pytestmark = pytest.mark.skipif(not VECTORS, reason=f"no golden vectors: {FILE} is absent")


class Replay:
    """One controller, its caches, and the cluster that they are caches of."""

    def __init__(self, case: Case, stores: Mapping[str, Indexer]) -> None:
        self._input = case["input"]
        self._key: str = self._input["serviceKey"]
        self._namespace = self._key.split("/")[0]
        self._pods = _by_key(self._input["pods"])
        self._nodes: Objects = self._input["nodes"] or []
        self._service: Object | None = self._input["service"]
        self._api = RecordingApi(numbered="steps" in self._input)
        for each in self._input["existingEndpointSlices"] or ():
            self._api.put(ENDPOINT_SLICES, each)
        self._stores = stores
        self._fill("endpointslices", [])
        pods, services, nodes, slices = (
            SharedInformer(ScriptedListWatch(), stores[name]) for name in RESOURCES
        )
        self._controller = EndpointSliceController(
            self._api,
            pods=pods,
            services=services,
            nodes=nodes,
            endpoint_slices=slices,
            max_endpoints_per_slice=self._input["maxEndpointsPerSlice"],
        )

    def run(self) -> Iterator[Case]:
        """Yield what came of each sync."""
        yield self._sync(0)
        for number, step in enumerate(self._input.get("steps", ()), start=1):
            self._change(step)
            yield self._sync(number, is_late=_keeps_stale(step))

    def _change(self, step: Case) -> None:
        if not _keeps_stale(step):
            self._show_slices()  # what the last sync wrote, before somebody changes that
        if "pods" in step:
            self._pods = _by_key(step["pods"])
        self._pods.update(_by_key(step.get("podsPut")))
        for name in step.get("podsRemove") or ():
            self._pods.pop(f"{self._namespace}/{name}", None)
        if "service" in step:
            self._service = step["service"]
        if step.get("serviceDeleted"):
            self._service = None
        if "nodes" in step:
            self._nodes = step["nodes"] or []
        for each in step.get("slicesPut") or ():
            self._api.put(ENDPOINT_SLICES, each)
        for name in step.get("slicesRemove") or ():
            self._api.remove(ENDPOINT_SLICES, self._namespace, name)

    def _sync(self, number: int, *, is_late: bool = False) -> Case:
        """Bring the caches up to date, or leave the one of slices behind, and sync."""
        self._fill("pods", list(self._pods.values()))
        self._fill("services", [self._service] if self._service else [])
        self._fill("nodes", self._nodes)
        self._controller.update_topology()
        if not is_late:
            self._show_slices()
        self._api.actions.clear()
        self._api.fail(failures(self._input, number))
        error, before = None, self._cached()
        try:
            self._controller.sync(self._key)
        except Exception as raised:  # noqa: BLE001 - the case says which it should be
            error = str(raised)
        assert self._cached() == before, "objects of the caches were changed"
        return {
            "actions": list(self._api.actions),
            "endpointSlices": self._api.list(ENDPOINT_SLICES),
            "error": error,
        }

    def _show_slices(self) -> None:
        """Have the cache show the slices, and tell the controller what changed."""
        slices = self._api.list(ENDPOINT_SLICES)
        show(self._stores["endpointslices"], slices, self._controller.slice_events)

    def _cached(self) -> list[list[str]]:
        return [sorted(map(text_of, store.list())) for store in self._stores.values()]

    def _fill(self, resource: str, objs: Objects) -> None:
        self._stores[resource].replace(copy.deepcopy(objs), "1")


def _keeps_stale(step: Case) -> bool:
    return bool(step.get("keepInformerStale") or step.get("keepEndpointSlicesInformerStale"))


def _by_key(objs: Objects | None) -> dict[str, Object]:
    return {meta_namespace_key_func(obj): obj for obj in objs or ()}


def _exactly(outcome: Case) -> Case:
    """Return all of an outcome but the order of slices, of endpoints, and of writes."""
    slices = [
        {**each, "endpoints": sorted(each.get("endpoints") or [], key=text_of)}
        for each in outcome["endpointSlices"]
    ]
    return {
        "slices": sorted(slices, key=lambda each: str(each["metadata"]["name"])),
        "writes": sorted(outcome["actions"], key=text_of),
        "error": _error(outcome),
    }


def _error(outcome: Case) -> Any:
    """Return the error; if it is several, sorted, for upstream puts them in any order."""
    text = outcome["error"]
    several = text is not None and text.startswith("[")
    return sorted(text.strip("[]").split(", ")) if several else text


def _contents(outcome: Case, *, hints: bool) -> Case:
    """Return what an outcome says whatever the order in which upstream goes through maps.

    Endpoints by address type and ports, and there the sizes of slices; how often each was written.
    """
    endpoints: dict[str, list[str]] = {}
    sizes: dict[str, list[int]] = {}
    for each in outcome["endpointSlices"]:
        meta = each["metadata"]
        owners = [owner["uid"] for owner in meta.get("ownerReferences") or ()]
        kept = {field: meta.get(field) for field in ("labels", "annotations", "generateName")}
        group = text_of([each["addressType"], each["ports"] or [], owners, kept])
        found = each.get("endpoints") or []
        sizes.setdefault(group, []).append(len(found))
        endpoints.setdefault(group, []).extend(
            text_of({k: v for k, v in endpoint.items() if hints or k != "hints"})
            for endpoint in found
        )
    return {
        "endpoints": {group: sorted(texts) for group, texts in endpoints.items()},
        "sizes": {group: sorted(numbers) for group, numbers in sizes.items()},
        "writes": Counter(action["verb"] for action in outcome["actions"]),
        "error": _error(outcome),
    }


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
    exact = case.get("stepsDeterministic") or [case["deterministic"]] * len(expected)
    same_hints = case.get("stepsContentsDeterministic") or (
        [case["contentsDeterministic"]] * len(expected)
    )
    outcomes = list(Replay(case, stores).run())
    assert len(outcomes) == len(expected)
    for number, (outcome, right) in enumerate(zip(outcomes, expected, strict=True)):
        if exact[number]:
            assert _exactly(outcome) == _exactly(right), f"sync {number}"
        else:
            hints = same_hints[number]
            assert _contents(outcome, hints=hints) == _contents(right, hints=hints), (
                f"sync {number}"
            )
