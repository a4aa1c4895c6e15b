"""A cluster of nodes, services and pods, and how its pods change.

Services differ in what matters to the controllers: one or two labels in the selector, ports by
number and by a name that means two numbers, headless, both address families, pods that are
published before they are ready, and traffic kept in the zone.

Promises
- The same seed and sizes give the same objects and the same changes, in order.
- Writes go through the API server's own rules, but for the first pods, which are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from sqlcache.objects import Object

if TYPE_CHECKING:
    from sqlcache.testing.apiserver import ApiServer

NODES, ZONES = 12, ("a", "b", "c")
_TIERS = ("web", "worker")
_READY = 0.9  # of the pods at the start
_SHARES = {"readiness": 0.45, "labels": 0.15, "address": 0.15, "replace": 0.15, "note": 0.1}


class World:
    """The objects of one server; nobody else may write its pods."""

    def __init__(
        self, server: ApiServer, *, namespaces: int, services: int, pods: int, seed: int
    ) -> None:
        """Make namespaces, nodes and services.

        Args:
            server: empty.
            namespaces, services, pods: how many, all in all. They are spread evenly.
            seed: what the pods and their changes are drawn from.
        """
        self._server, self._random = server, Random(f"demo {seed}")  # noqa: S311 - not for secrets
        self._namespaces = [f"team-{number}" for number in range(namespaces)]
        self._apps = dict.fromkeys(self._namespaces, 1)
        self._left, self._number = pods, 0
        self._pods: list[tuple[str, str]] = []  # namespace and name
        self._going: list[tuple[str, str]] = []
        for number in range(NODES):
            _add_node(server, number)
        for number in range(services):
            namespace = self._namespaces[number % namespaces]
            self._apps[namespace] = number // namespaces + 1
            server.create("services", _service(number // namespaces, number, namespace))

    def populate(self, most: int) -> int:
        """Load some of the pods; return how many are still to come."""
        count = min(most, self._left)
        self._server.load("pods", (self._new_pod() for _ in range(count)))
        self._left -= count
        return self._left

    def change(self, count: int) -> None:
        """Make changes, each of one pod."""
        for _ in range(count):  # one by one: the same, however many are asked for at a time
            (kind,) = self._random.choices(list(_SHARES), list(_SHARES.values()))
            getattr(self, f"_change_{kind}")(*self._random.choice(self._pods))

    def _change_readiness(self, namespace: str, name: str) -> None:
        status = self._server.get("pods", name, namespace)["status"]
        ready = status["conditions"][0]["status"] != "True"
        self._patch_status(namespace, name, {"conditions": _conditions(ready=ready)})

    def _change_labels(self, namespace: str, name: str) -> None:
        patch = {"metadata": {"labels": self._labels(namespace)}}
        self._server.patch("pods", name, patch, namespace)

    def _change_address(self, namespace: str, name: str) -> None:
        """Give a pod other addresses, as when its sandbox is made anew."""
        self._number += 1
        self._patch_status(namespace, name, _addresses(self._number))

    def _change_replace(self, namespace: str, name: str) -> None:
        """Let a pod go, have the one go that is longest on its way, and make a new one."""
        self._server.delete("pods", name, namespace, grace_period_s=30)
        self._pods.remove((namespace, name))
        self._going.append((namespace, name))
        if len(self._going) > 1:
            namespace, name = self._going.pop(0)
            self._server.delete("pods", name, namespace, grace_period_s=0)
        self._server.load("pods", [self._new_pod()])

    def _change_note(self, namespace: str, name: str) -> None:
        """Change what concerns no service."""
        note = {"metadata": {"annotations": {"note": str(self._random.random())}}}
        self._server.patch("pods", name, note, namespace)

    def _patch_status(self, namespace: str, name: str, status: Object) -> None:
        self._server.patch("pods", name, {"status": status}, namespace, subresource="status")

    def _new_pod(self) -> Object:
        self._number += 1
        number, namespace = self._number, self._random.choice(self._namespaces)
        name = f"pod-{number:06d}"
        self._pods.append((namespace, name))
        ports = [{"name": "web", "containerPort": 8080 + number % 2, "protocol": "TCP"}]
        return {
            "metadata": {"name": name, "namespace": namespace, "labels": self._labels(namespace)},
            "spec": {
                "nodeName": f"node-{number % NODES}",
                "containers": [{"name": "c", "image": "i", "ports": ports}],
            },
            "status": {
                "phase": "Running",
                "conditions": _conditions(ready=self._random.random() < _READY),
                **_addresses(number),
            },
        }

    def _labels(self, namespace: str) -> dict[str, str]:
        app = self._random.randrange(self._apps[namespace])
        return {"app": f"app-{app}", "tier": self._random.choice(_TIERS)}


def _add_node(server: ApiServer, number: int) -> None:
    zone = {"topology.kubernetes.io/zone": ZONES[number % len(ZONES)]}
    made = server.create("nodes", {"metadata": {"name": f"node-{number}", "labels": zone}})
    status = {"conditions": _conditions(ready=True), "allocatable": {"cpu": "8"}}
    server.update("nodes", {**made, "status": status}, subresource="status")


def _service(app: int, number: int, namespace: str) -> Object:
    spec: Object = {
        "selector": {"app": f"app-{app}", **({"tier": "web"} if number % 4 == 3 else {})},
        "ports": list(_ports(number)),
        "publishNotReadyAddresses": number % 7 == 6,
        "ipFamilies": ["IPv4", "IPv6"] if number % 6 == 5 else ["IPv4"],
    }
    if number % 5 == 4:
        spec["clusterIP"] = "None"
    if number % 8 == 7:
        spec["trafficDistribution"] = "PreferSameNode" if number % 16 == 15 else "PreferClose"
    labels = {"app": f"app-{app}"}
    meta = {"name": f"service-{app}", "namespace": namespace, "labels": labels}
    return {"metadata": meta, "spec": spec}


def _ports(number: int) -> Iterator[Object]:
    yield {"name": "http", "port": 80, "targetPort": 8080}
    if number % 3 == 2:
        yield {"name": "web", "port": 81, "targetPort": "web"}


def _conditions(*, ready: bool) -> list[Object]:
    return [{"type": "Ready", "status": str(ready)}]


def _addresses(number: int) -> Object:
    ip = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {"podIP": ip, "podIPs": [{"ip": ip}, {"ip": f"fd00::{number:x}"}]}
