"""Random changes of a cluster, and troubles of its API server, for controllers of endpoints."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from sqlcache.client import Resource
from sqlcache.objects import Object
from sqlcache.testing.apiserver import ApiError, ApiServer

NAMESPACES = ("shop", "lab")
SERVICES = 5  # of a namespace, s0 to s4


def service(name: str, namespace: str = "shop", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            **spec,
        },
    }


def new_pod(
    name: str, namespace: str = "shop", *, labels: dict[str, str], node: str = "n1"
) -> Object:
    ports = [{"name": "web", "containerPort": 8081 + (len(name) + ord(name[-1])) % 2}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "ports": ports}],
        },
    }


def status(*ips: str, ready: bool, phase: str = "Running") -> Object:
    return {
        "phase": phase,
        "podIP": ips[0],
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }


def add_pod(server: ApiServer, name: str, ip: str, namespace: str = "shop") -> Object:
    made = server.create("pods", new_pod(name, namespace, labels={"app": "web"}))
    return server.update("pods", {**made, "status": status(ip, ready=True)}, subresource="status")


class Chaos:
    """Changes a cluster at random.

    Attributes:
        changes: what may happen in some namespace, and how often.
    """

    def __init__(
        self,
        server: ApiServer,
        seed: int,
        *,
        written: str,
        watched: Sequence[Resource],
        nodes: Sequence[str] = ("n1",),
    ) -> None:
        self.server, self.random = server, random.Random(seed)
        self._written, self._watched = written, [each.plural for each in watched]
        self._nodes = nodes
        self._number = 0
        self.changes: dict[Callable[[str], None], int] = {
            self._new_pod: 6,
            self._change_status: 10,
            self._change_labels: 6,
            self._delete_pod: 4,
            self._put_service: 6,
            self._delete_service: 2,
            self._annotate_written: 4,
            self._delete_written: 2,
            self._trouble: 4,
        }

    def turn(self) -> None:
        """Make one change."""
        change = self.random.choices(list(self.changes), list(self.changes.values()))[0]
        try:
            change(self.random.choice(NAMESPACES))
        except ApiError as error:
            if error.code not in (404, 409):  # what it chose is gone, or was changed in between
                raise

    def some(self, resource: str, namespace: str) -> str:
        """Return the name of some object; of none that is there, if there is none."""
        names = [each["metadata"]["name"] for each in self.server.list(resource, namespace)]
        return self.random.choice(sorted(names)) if names else "none"

    def new_spec(self, name: str) -> Object:
        """Return the part of a new service's spec that is always the same for a name.

        The label of a headless service that is recreated as another is not repaired, as upstream.
        """
        return {"clusterIP": "None" if name < "s2" else ""}

    def _labels(self) -> dict[str, str]:
        return {"app": self.random.choice("xyz"), "tier": self.random.choice("ab")}

    def _status(self) -> Object:
        self._number += 1  # never the IP from before: a new phase alone brings no sync
        number = self._number % 250 + 1
        phase = self.random.choice(["Running"] * 6 + ["Failed", "Succeeded"])
        ready = phase == "Running" and self.random.random() < 0.6
        return status(f"10.0.0.{number}", f"fd00::{number:x}", ready=ready, phase=phase)

    def _new_pod(self, namespace: str) -> None:
        self._number += 1
        node = self.random.choice(self._nodes)
        new = new_pod(f"p{self._number}", namespace, labels=self._labels(), node=node)
        made = self.server.create("pods", new)
        self.server.update("pods", {**made, "status": self._status()}, subresource="status")

    def _change_status(self, namespace: str) -> None:
        found = self.server.get("pods", self.some("pods", namespace), namespace)
        self.server.update("pods", {**found, "status": self._status()}, subresource="status")

    def _change_labels(self, namespace: str) -> None:
        patch = {"metadata": {"labels": self._labels()}}
        self.server.patch("pods", self.some("pods", namespace), patch, namespace=namespace)

    def _delete_pod(self, namespace: str) -> None:
        grace = self.random.choice([0, 30])
        name = self.some("pods", namespace)
        self.server.delete("pods", name, namespace=namespace, grace_period_s=grace)

    def fill(self) -> None:
        """Make sure that there is something to compare: all services, and some pods."""
        for namespace in NAMESPACES:
            for number in range(SERVICES):
                self._write_service(namespace, f"s{number}")
            for _ in range(20):
                self._new_pod(namespace)

    def _put_service(self, namespace: str) -> None:
        self._write_service(namespace, f"s{self.random.randrange(SERVICES)}")

    def _write_service(self, namespace: str, name: str) -> None:
        selector = self.random.choice([{"app": "x"}, {"app": "y", "tier": "a"}, {"tier": "b"}])
        ports = [
            {"name": "http", "port": 80, "targetPort": self.random.choice([8080, "web", "none"])},
            {"name": "more", "port": 81, "targetPort": self.random.choice([9090, "web"])},
        ]
        spec = {
            "selector": selector,
            "ports": ports[: self.random.randint(1, 2)],
            "publishNotReadyAddresses": self.random.random() < 0.3,
        }
        labels = {"colour": self.random.choice(["red", "blue"])}
        try:
            found = self.server.get("services", name, namespace)
        except ApiError:
            new = service(name, namespace, **spec, **self.new_spec(name))
            new["metadata"]["labels"] = labels
            self.server.create("services", new)
            return
        found["metadata"]["labels"] = labels
        self.server.update("services", {**found, "spec": {**found["spec"], **spec}})

    def _delete_service(self, namespace: str) -> None:
        self.server.delete("services", self.some("services", namespace), namespace=namespace)

    def _annotate_written(self, namespace: str) -> None:
        """Make a conflict: what the controller's cache holds is old for a moment."""
        note = {"metadata": {"annotations": {"touched": str(self.random.random())}}}
        name = self.some(self._written, namespace)
        self.server.patch(self._written, name, note, namespace=namespace)

    def _delete_written(self, namespace: str) -> None:
        self.server.delete(self._written, self.some(self._written, namespace), namespace=namespace)

    def _trouble(self, namespace: str) -> None:
        faults, verb = self.server.faults, self.random.choice(["create", "update", "delete"])
        scope: dict[str, Any] = {"verb": verb, "resource": self._written, "namespace": namespace}
        match self.random.randrange(5):
            case 0:
                faults.fail(**scope, times=2)
            case 1:
                faults.error(409, reason="Conflict", **scope, times=2)
            case 2:
                faults.refuse(**scope)
            case 3:
                faults.expire(verb="watch", resource=self.random.choice(self._watched))
            case 4:
                self.server.cut_watches()
