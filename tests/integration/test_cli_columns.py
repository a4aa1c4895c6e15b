"""What kubectl says of an object. Cases follow kubernetes printers_test.go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.cli._ages import age, human_duration
from sqlcache.cli._columns import columns_of, format_labels
from sqlcache.cli._pods import pod_state
from sqlcache.testing import pod
from tests.integration.command import NOW

REAL = Path(__file__).parents[1] / "data/real/04-k3s-support-bundle.json"
RUNNING: dict[str, Any] = {"ready": True, "state": {"running": {}}}
COMPLETED: dict[str, Any] = {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
INITIALIZED: dict[str, Any] = {"conditions": [{"type": "Initialized", "status": "True"}]}


def ago(**past: int) -> str:
    return (NOW - timedelta(**past)).isoformat().replace("+00:00", "Z")


def waiting(reason: str, **status: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}, **status}


def terminated(**state: Any) -> dict[str, Any]:
    return {"state": {"terminated": state}}


def restarted(count: int, **past: int) -> dict[str, Any]:
    return {
        **RUNNING,
        "restartCount": count,
        "lastState": {"terminated": {"finishedAt": ago(**past)}},
    }


def of(
    *containers: dict[str, Any],
    init: list[dict[str, Any]] | None = None,
    sidecars: tuple[int, ...] = (),
    phase: str = "Running",
    meta: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """Return a pod with these container statuses; those at `sidecars` in `init` go on running."""
    inits = [
        {"name": f"i{number}", **({"restartPolicy": "Always"} if number in sidecars else {})}
        for number in range(len(init or []))
    ]
    obj = pod(
        "p",
        spec={"containers": [{"name": f"c{n}"} for n in range(len(containers))]},
        status={
            "phase": phase,
            "containerStatuses": [{"name": f"c{n}", **c} for n, c in enumerate(containers)],
            **status,
        },
    )
    if init is not None:
        obj["spec"]["initContainers"] = inits
        obj["status"]["initContainerStatuses"] = [
            {"name": f"i{number}", **container} for number, container in enumerate(init)
        ]
    obj["metadata"].update(meta or {})
    return obj


PODS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing known": (pod("p"), "0/0  0"),
    "pending": (pod("p", status={"phase": "Pending"}), "0/0 Pending 0"),
    "running": (of(RUNNING, RUNNING), "2/2 Running 0"),
    "one not ready": (of(RUNNING, {**RUNNING, "ready": False}), "1/2 Running 0"),
    "ready, yet not running": (of({"ready": True}), "0/1 Running 0"),
    "restarts, time unknown": (of({**RUNNING, "restartCount": 3}, RUNNING), "2/2 Running 3"),
    "restarts": (of(restarted(3, minutes=5), restarted(2, hours=9)), "2/2 Running 5 (5m ago)"),
    "crashing": (of(waiting("CrashLoopBackOff", restartCount=7)), "0/1 CrashLoopBackOff 7"),
    "image": (of(waiting("ImagePullBackOff"), RUNNING), "1/2 ImagePullBackOff 0"),
    "first of several reasons": (of(waiting("A"), waiting("B")), "0/2 A 0"),
    "waiting without reason": (of({"state": {"waiting": {}}}), "0/1 Running 0"),
    "creating": (of(waiting("ContainerCreating"), phase="Pending"), "0/1 ContainerCreating 0"),
    "error": (of(terminated(reason="Error", exitCode=1)), "0/1 Error 0"),
    "killed": (of(terminated(reason="OOMKilled", exitCode=137)), "0/1 OOMKilled 0"),
    "exit code": (of(terminated(exitCode=3)), "0/1 ExitCode:3 0"),
    "signal": (of(terminated(exitCode=3, signal=9)), "0/1 Signal:9 0"),
    "no exit code": (of(terminated()), "0/1 ExitCode:0 0"),
    "completed": (of(COMPLETED, phase="Succeeded"), "0/1 Completed 0"),
    "completed beside a ready one": (of(COMPLETED, RUNNING, **READY), "1/2 Running 0"),
    "completed beside a running one": (of(COMPLETED, RUNNING), "1/2 NotReady 0"),
    "evicted": (pod("p", status={"phase": "Failed", "reason": "Evicted"}), "0/0 Evicted 0"),
    "gated": (
        of(
            phase="Pending",
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        ),
        "0/0 SchedulingGated 0",
    ),
    "terminating": (of(RUNNING, meta={"deletionTimestamp": ago(days=1)}), "1/1 Terminating 0"),
    "terminating, node lost": (
        of(RUNNING, reason="NodeLost", meta={"deletionTimestamp": ago(days=1)}),
        "1/1 Unknown 0",
    ),
    "node lost": (of(RUNNING, reason="NodeLost"), "1/1 NodeLost 0"),
    "deleted when done": (
        of(COMPLETED, phase="Succeeded", meta={"deletionTimestamp": ago(days=1)}),
        "0/1 Completed 0",
    ),
    "deleted when failed": (
        of(terminated(reason="Error"), phase="Failed", meta={"deletionTimestamp": ago(days=1)}),
        "0/1 Error 0",
    ),
    "init waits": (of({}, init=[{}, {}], phase="Pending"), "0/1 Init:0/2 0"),
    "second init runs": (of({}, init=[COMPLETED, RUNNING]), "0/1 Init:1/2 0"),
    "init initializing": (
        of({}, init=[COMPLETED, waiting("PodInitializing")]),
        "0/1 Init:1/2 0",
    ),
    "init crashes": (
        of({}, init=[waiting("CrashLoopBackOff", restartCount=4)]),
        "0/1 Init:CrashLoopBackOff 4",
    ),
    "init failed": (of({}, init=[terminated(reason="Error", exitCode=1)]), "0/1 Init:Error 0"),
    "init exit code": (of({}, init=[terminated(exitCode=2)]), "0/1 Init:ExitCode:2 0"),
    "init signal": (of({}, init=[terminated(exitCode=2, signal=9)]), "0/1 Init:Signal:9 0"),
    "init restarts are those until it is done": (
        of(RUNNING, init=[{**COMPLETED, "restartCount": 3}]),
        "1/1 Running 0",
    ),
    "init done, main waits": (
        of(waiting("PodInitializing"), init=[COMPLETED]),
        "0/1 PodInitializing 0",
    ),
    "restarted init of an initialized pod": (
        of({**RUNNING, "restartCount": 1}, init=[waiting("X", restartCount=5)], **INITIALIZED),
        "1/1 Init:X 1",
    ),
    "sidecar": (
        of(RUNNING, init=[{**RUNNING, "started": True}], sidecars=(0,)),
        "2/2 Running 0",
    ),
    "sidecar not ready": (
        of(RUNNING, init=[{**RUNNING, "started": True, "ready": False}], sidecars=(0,)),
        "1/2 Running 0",
    ),
    "sidecar not started": (of({}, init=[RUNNING], sidecars=(0,)), "0/2 Init:0/1 0"),
    "sidecar restarts stay": (
        of(
            {**RUNNING, "restartCount": 1},
            init=[
                {**restarted(2, minutes=20), "started": True},
                {**COMPLETED, "restartCount": 9},
            ],
            sidecars=(0,),
        ),
        "2/2 Running 3 (20m ago)",
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_pod_state(case: str) -> None:
    obj, expected = PODS[case]
    state = pod_state(obj)
    assert f"{state.ready}/{state.total} {state.status} {state.restarts.text(NOW)}" == expected


def test_wide_pod() -> None:
    obj = of(
        RUNNING,
        podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        nominatedNodeName="n2",
        conditions=[{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
    )
    obj["spec"].update(nodeName="n1", readinessGates=[{"conditionType": x} for x in "abc"])
    assert cells("pods", obj, wide=True)[5:] == ["10.0.0.1", "n1", "n2", "1/3"]
    assert cells("pods", pod("p"), wide=True)[5:] == ["<none>"] * 4
    old = pod("p", status={"podIP": "10.0.0.9"})
    assert cells("pods", old, wide=True)[5] == "10.0.0.9"


SERVICES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "cluster IP": (
        {"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"], "clusterIP": "10.0.0.1"},
        ["ClusterIP", "10.0.0.1", "<none>", "<none>"],
    ),
    "ports": (
        {
            "type": "NodePort",
            "clusterIP": "10.0.0.1",
            "externalIPs": ["1.1.1.1", "2.2.2.2"],
            "ports": [
                {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                {"port": 53, "protocol": "UDP"},
            ],
        },
        ["NodePort", "10.0.0.1", "1.1.1.1,2.2.2.2", "80:30080/TCP,53/UDP"],
    ),
    "headless": (
        {"type": "ClusterIP", "clusterIP": "None"},
        ["ClusterIP", "None", "<none>", "<none>"],
    ),
    "external": (
        {"type": "ExternalName", "externalName": "example.com"},
        ["ExternalName", "<none>", "example.com", "<none>"],
    ),
    "pending": ({"type": "LoadBalancer"}, ["LoadBalancer", "<none>", "<pending>", "<none>"]),
    "unknown": ({}, ["", "<none>", "<unknown>", "<none>"]),
}


@pytest.mark.parametrize("case", SERVICES)
def test_service(case: str) -> None:
    spec, expected = SERVICES[case]
    obj = {"metadata": {"name": "s", "creationTimestamp": ago(days=3)}, "spec": spec}
    assert cells("services", obj) == ["s", *expected, "3d"]
    assert cells("services", obj, wide=True)[-1] == "<none>"


def test_load_balancer_is_cut_unless_wide() -> None:
    ingress = [{"ip": "203.0.113.7"}, {"hostname": "a.example.com"}]
    obj = {
        "metadata": {"name": "s"},
        "spec": {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"], "selector": {"b": "2"}},
        "status": {"loadBalancer": {"ingress": ingress}},
    }
    assert cells("services", obj)[3] == "203.0.113.7,a..."[:13] + "...,1.1.1.1"
    wide = cells("services", obj, wide=True)
    assert wide[3] == "203.0.113.7,a.example.com,1.1.1.1"
    assert wide[6] == "b=2"


def test_node() -> None:
    obj: dict[str, Any] = {
        "metadata": {
            "name": "n",
            "creationTimestamp": ago(hours=2),
            "labels": {
                "node-role.kubernetes.io/worker": "",
                "node-role.kubernetes.io/": "",
                "kubernetes.io/role": "edge",
            },
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "nodeInfo": {"kubeletVersion": "v1.33.0", "osImage": "Linux"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    assert cells("nodes", obj, wide=True) == [
        *("n", "NotReady,SchedulingDisabled", "edge,worker", "120m", "v1.33.0"),
        *("10.0.0.1", "<none>", "Linux", "<unknown>", "<unknown>"),
    ]
    bare = {"metadata": {"name": "n"}}
    assert cells("nodes", bare) == ["n", "Unknown", "<none>", "<unknown>", ""]


def test_other_resources_have_name_and_age() -> None:
    obj = {"metadata": {"name": "x", "creationTimestamp": ago(seconds=5)}}
    assert columns_of("widgets").headers == ("NAME", "AGE")
    assert cells("widgets", obj, wide=True) == ["x", "5s"]


def test_labels() -> None:
    assert format_labels({"b": "2", "a": "", "c/d": "x"}) == "a=,b=2,c/d=x"
    assert format_labels({}) == format_labels(None) == "<none>"


@pytest.mark.parametrize("resource", ["pods", "services", "nodes", "endpoints"])
def test_real_objects(resource: str) -> None:
    objects = orjson.loads(REAL.read_bytes())[resource]
    assert objects
    for obj in objects:
        for cell in cells(resource, obj, wide=True)[:4]:
            assert cell not in ("", "<unknown>", "<invalid>")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    [
        "state",
        "terminated",
        "waiting",
        "running",
        "lastState",
        "reason",
        "exitCode",
        "signal",
        "restartCount",
        "ready",
        "started",
        "type",
        "status",
        "name",
        "containers",
        "initContainers",
        "restartPolicy",
        "containerStatuses",
        "conditions",
        "ip",
        "initContainerStatuses",
        "podIPs",
        "ports",
        "nodePort",
        "loadBalancer",
        "ingress",
        "selector",
        "nodeInfo",
        "addresses",
        "readinessGates",
        "externalIPs",
        "clusterIPs",
        "unschedulable",
        "finishedAt",
        "deletionTimestamp",
    ]
)
SHAPED = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=25,
)


@given(spec=SHAPED, status=SHAPED, meta=st.dictionaries(FIELDS, JSON), created=JSON)
def test_objects_of_any_shape_have_cells(
    spec: Any, status: Any, meta: dict[str, Any], created: Any
) -> None:
    obj = {
        "metadata": {**meta, "name": "x", "creationTimestamp": created},
        "spec": spec,
        "status": status,
    }
    for resource in ("pods", "services", "nodes", "widgets"):
        columns = columns_of(resource)
        shown = columns.cells(obj, NOW, True)
        assert len(shown) == len(columns.headers) + len(columns.wide_headers)
        assert all(isinstance(cell, str) for cell in shown)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86_400, "8d"),
        (729 * 86_400, "729d"),
        (730 * 86_400, "2y"),
        (731 * 86_400, "2y1d"),
        (8 * 365 * 86_400, "8y"),
        (80 * 365 * 86_400 + 86_400, "80y"),
    ],
)
def test_durations(seconds: int, expected: str) -> None:
    assert human_duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ago(minutes=5), "5m"),
        ("2026-03-01T14:55:00+03:00", "5m"),
        ("2026-03-01T11:59:58.123456789Z", "1s"),
        ("2026-03-01T12:00:01Z", "0s"),
        ("2026-03-01T12:00:03Z", "<invalid>"),
        ("0001-01-01T00:00:00+14:00", "2026y"),
        ("9999-12-31T23:59:59-14:00", "<invalid>"),
        ("", "<unknown>"),
        ("yesterday", "<unknown>"),
        (None, "<unknown>"),
        (5, "<unknown>"),
    ],
)
def test_ages(value: Any, expected: str) -> None:
    assert age(value, NOW) == expected


def cells(resource: str, obj: dict[str, Any], *, wide: bool = False) -> list[str]:
    return columns_of(resource).cells(obj, NOW, wide)
