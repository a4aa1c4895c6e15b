"""Selectors against dumps of real clusters, and against what their own controllers wrote.

SQLCACHE_REAL names the folder of the dumps; the default is ../shared/real beside the repository, or
else the sample in tests/data. A dump is `{"pods": [...], "services": [...], "endpoints": [...],
"endpointslices": [...], "nodes": [...]}`.

The Endpoints of a service with a selector list the pods that match it, by this rule: same
namespace, every pair of the selector, a podIP, no deletionTimestamp, phase neither Succeeded nor
Failed; ready by the pod's Ready condition or the service's publishNotReadyAddresses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from sqlcache.lister import PodLister, ServiceLister
from sqlcache.objects import Object, Objects
from sqlcache.selectors import Operator, Requirement, Selector
from sqlcache.store.api import Indexer
from sqlcache.testing import keys
from tests.backends import BACKENDS, open_bounded_store

Dump = dict[str, Any]
Labels = Mapping[str, str]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / ".." / "shared" / "real"
SAMPLE = ROOT / "tests" / "data" / "real"


def dump_folder() -> Path:
    if folder := os.environ.get("SQLCACHE_REAL"):
        return Path(folder)
    return SHARED if SHARED.is_dir() else SAMPLE


KINDS = ("pods", "services", "endpoints", "endpointslices", "nodes")  # a dump may lack some
FOLDER = dump_folder()
FILES = sorted(FOLDER.glob("*.json")) if FOLDER.is_dir() else []

pytestmark = pytest.mark.skipif(not FILES, reason=f"no dumps: {FOLDER} has none")


@cache
def dump(path: Path) -> Dump:
    loaded: Dump = orjson.loads(path.read_bytes())
    return loaded | {kind: loaded.get(kind) or [] for kind in KINDS}


# The rule, written without this package


def meta(obj: Object) -> dict[str, Any]:
    found: dict[str, Any] = obj["metadata"]
    return found


def plain(pods: Iterable[Object], namespace: str, wanted: Callable[[Labels], bool]) -> list[str]:
    return sorted(
        f"{meta(pod)['namespace']}/{meta(pod)['name']}"
        for pod in pods
        if namespace in ("", meta(pod)["namespace"]) and wanted(meta(pod).get("labels") or {})
    )


def has_all(pairs: Labels) -> Callable[[Labels], bool]:
    return lambda labels: all(labels.get(key) == value for key, value in pairs.items())


def listed(pod: Object) -> bool:
    status = pod.get("status") or {}
    return (
        bool(status.get("podIP"))
        and not meta(pod).get("deletionTimestamp")
        and status.get("phase") not in ("Succeeded", "Failed")
    )


def is_ready(pod: Object, service: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return bool(service["spec"].get("publishNotReadyAddresses")) or any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def selecting_services(loaded: Dump) -> Iterator[Object]:
    return (service for service in loaded["services"] if service["spec"].get("selector"))


# The checks


def check_services(store: Indexer, loaded: Dump) -> None:
    """Each service selects what the plain rule gives, and so do selectors made from its terms."""
    namespaces = {meta(pod)["namespace"] for pod in loaded["pods"]}
    other = min(namespaces, default="")
    for service in selecting_services(loaded):
        pairs: dict[str, str] = service["spec"]["selector"]
        for namespace in {meta(service)["namespace"], "", other}:
            expected = plain(loaded["pods"], namespace, has_all(pairs))
            assert keys(store.select(namespace, pairs)) == expected
            assert keys(PodLister(store).pods(namespace).list({"matchLabels": pairs})) == expected
            assert store.count(namespace, pairs) == len(expected)
            assert store.explain(namespace, pairs).matched == len(expected)
        negative = Selector(
            Requirement(key, Operator.NOT_EQUALS, [value]) for key, value in pairs.items()
        )
        expected = plain(
            loaded["pods"],
            meta(service)["namespace"],
            lambda labels, pairs=pairs: all(labels.get(k) != v for k, v in pairs.items()),  # type: ignore[misc]
        )
        assert keys(store.select(meta(service)["namespace"], negative)) == expected


def check_labels(store: Indexer, loaded: Dump) -> None:
    """Each label of each pod selects what the plain rule gives, and so does its absence."""
    pods: Objects = loaded["pods"]
    pairs = {pair for pod in pods for pair in (meta(pod).get("labels") or {}).items()}
    for key, value in pairs:
        expected = plain(pods, "", has_all({key: value}))
        assert keys(store.select("", {key: value})) == expected
        assert store.count("", f"{key}!={value}") == len(pods) - len(expected)
    for key in {key for key, _ in pairs}:
        expected = plain(pods, "", lambda labels, key=key: key in labels)  # type: ignore[misc]
        assert keys(store.select("", key)) == expected
        assert store.count("", f"!{key}") == len(pods) - len(expected)
    for namespace in {meta(pod)["namespace"] for pod in pods}:
        assert keys(store.select(namespace, "")) == plain(pods, namespace, has_all({}))
    stats = store.stats()
    assert stats.objects == len(pods)
    assert {each.key for each in stats.label_keys} == {key for key, _ in pairs}


def check_endpoints(store: Indexer, loaded: Dump) -> None:
    """The Endpoints that the cluster's controller wrote list the pods that the store selects."""
    written = {
        (meta(endpoints)["namespace"], meta(endpoints)["name"]): {
            (address["ip"], field == "addresses")
            for subset in endpoints.get("subsets") or []
            for field in ("addresses", "notReadyAddresses")
            for address in subset.get(field) or []
        }
        for endpoints in loaded["endpoints"]
    }
    compared = 0
    for service in selecting_services(loaded):
        name = (meta(service)["namespace"], meta(service)["name"])
        if name in written:
            expected = {
                (pod["status"]["podIP"], is_ready(pod, service))
                for pod in store.select(name[0], service["spec"]["selector"])
                if listed(pod)
            }
            assert (name, written[name]) == (name, expected)
            compared += 1
    if not compared:
        pytest.skip("no service of the dump has any")


def check_slices(store: Indexer, loaded: Dump) -> None:
    """The EndpointSlices that the cluster's controller wrote list the pods that the store gives.

    Of the families that the service has slices of. Since 1.22 they also list pods that terminate,
    and say so; those are left out.
    """
    written: dict[tuple[str, str], set[tuple[str, str, bool]]] = {}
    families: dict[tuple[str, str], set[str]] = {}
    for each in loaded["endpointslices"]:
        service_name = (meta(each).get("labels") or {}).get("kubernetes.io/service-name", "")
        name = (meta(each)["namespace"], service_name)
        families.setdefault(name, set()).add(each["addressType"])
        written.setdefault(name, set()).update(
            (endpoint["targetRef"]["name"], endpoint["addresses"][0], conditions.get("ready", True))
            for endpoint in each.get("endpoints") or []
            if "targetRef" in endpoint
            and not (conditions := endpoint.get("conditions") or {}).get("terminating")
        )
    compared = 0
    for service in selecting_services(loaded):
        name = (meta(service)["namespace"], meta(service)["name"])
        if name in written:
            expected = {
                (meta(pod)["name"], ip, is_ready(pod, service))
                for pod in store.select(name[0], service["spec"]["selector"])
                if listed(pod)
                for ip in first_ips(pod, families[name])
            }
            assert (name, written[name]) == (name, expected)
            compared += 1
    if not compared:
        pytest.skip("no service of the dump has any")


def first_ips(pod: Object, families: set[str]) -> list[str]:
    """Return the first address of a pod of each of these families."""
    status, found = pod["status"], dict[str, str]()
    for ip in (each["ip"] for each in status.get("podIPs") or [{"ip": status["podIP"]}]):
        found.setdefault("IPv6" if ":" in ip else "IPv4", ip)
    return [ip for family, ip in found.items() if family in families]


# Each check, and the part of a dump that it needs.
CHECKS: dict[str, tuple[str, Callable[[Indexer, Dump], None]]] = {
    "labels": ("pods", check_labels),
    "services": ("services", check_services),
    "endpoints": ("endpoints", check_endpoints),
    "slices": ("endpointslices", check_slices),
}


def cases() -> list[Any]:
    return [
        pytest.param(path, check, id=f"{path.stem}-{name}")
        for path in FILES
        for name, (needed, check) in CHECKS.items()
        if dump(path)[needed] and (needed == "pods" or any(selecting_services(dump(path))))
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("path", "check"), cases())
def test_store_agrees_with_a_real_cluster(
    path: Path, check: Callable[[Indexer, Dump], None], backend: str, tmp_path: Path
) -> None:
    loaded = dump(path)
    with BACKENDS[backend](tmp_path) as store:
        store.replace(loaded["pods"], "1")
        check(store, loaded)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_store_with_bounded_labels_agrees_with_a_real_cluster(path: Path, tmp_path: Path) -> None:
    loaded = dump(path)
    with open_bounded_store(tmp_path) as store:
        store.replace(loaded["pods"], "1")
        check_labels(store, loaded)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_services_that_select_a_real_pod_are_those_that_the_rule_gives(
    path: Path, backend: str, tmp_path: Path
) -> None:
    loaded = dump(path)
    with BACKENDS[backend](tmp_path, resource="services") as store:
        store.replace(loaded["services"], "1")
        for pod in loaded["pods"]:
            expected = [
                service
                for service in loaded["services"]
                if meta(service)["namespace"] == meta(pod)["namespace"]
                and service["spec"].get("selector") is not None
                and has_all(service["spec"]["selector"])(meta(pod).get("labels") or {})
            ]
            assert keys(ServiceLister(store).selecting(pod)) == keys(expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_objects_come_back_equal(path: Path, backend: str, tmp_path: Path) -> None:
    """Of every kind, one by one and in a batch: `repr` also compares types and order of keys."""
    with BACKENDS[backend](tmp_path) as store:
        for objs in dump(path).values():
            if not isinstance(objs, list):
                continue
            expected = {key_of(obj): repr(obj) for obj in objs}
            store.replace(objs, "1")
            assert {key_of(obj): repr(obj) for obj in store.list()} == expected
            for obj in objs[:20]:
                store.update(obj)
                assert repr(store.get(obj)) == repr(obj)
            assert {key_of(obj): repr(obj) for obj in store.select("", "")} == expected


def key_of(obj: Object) -> str:
    return f"{meta(obj).get('namespace', '')}/{meta(obj)['name']}"
