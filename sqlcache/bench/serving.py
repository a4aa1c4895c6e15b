"""Services of one namespace, the pods behind them, their nodes, and how the pods change.

The pods are those of `workloads` with five labels, and with what makes an endpoint of a pod: a
Ready condition and `podIPs`. A service selects one value of `svc`, so 0.1 % of the pods; if there
are more services than values, several have the same pods.

Promises
- What services should hold is known here, without a store and without the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from sqlcache.bench import workloads
from sqlcache.objects import Object, Objects

NAMESPACE = "shop"
BURST = 10  # events that come at once
_FLIPS = 0.5  # of the changes: readiness; the others: labels
_NODES, _ZONES = 5000, 3
Event = dict[str, Any]


class Serving:
    """The pods as they are now.

    Attributes:
        size: number of pods.
        values: different values of `svc`.
    """

    def __init__(self, pods: int, seed: int, versions: Iterator[int]) -> None:
        """Draw the labels of pods.

        Args:
            pods: how many.
            seed: what labels and changes are drawn from.
            versions: resourceVersions of changes, each greater than the last.
        """
        self._seed = seed
        self.draw_anew("labels")
        columns = workloads.five_labels(self._random, pods)
        self._labels = [dict(labels) for labels in zip(*columns, strict=True)]
        self._ready = bytearray(b"\1") * pods
        self._versions = versions
        self.size, self.values = pods, len(set(columns[0]))

    def draw_anew(self, what: str) -> None:
        """Have what comes next drawn from the seed and this text, whatever was drawn before."""
        self._random = Random(f"serving {self._seed} {what}")  # noqa: S311 - not for secrets

    def pods(self) -> Iterator[Object]:
        """Yield all pods, each decoded anew."""
        for first in range(0, self.size, workloads.BATCH):
            numbers = range(first, min(first + workloads.BATCH, self.size))
            yield from workloads.decoded(self._pod(number, 1 + number) for number in numbers)

    def services(self, count: int) -> Objects:
        """Return services; the n-th selects the n-th value of `svc`, and so on in turn."""
        return workloads.decoded(_service(number, self.values) for number in range(count))

    def nodes(self) -> Objects:
        """Return the nodes that the pods are on."""
        return workloads.decoded(_node(number) for number in range(min(_NODES, self.size)))

    def served(self, services: int) -> list[int]:
        """Return the pods that some of so many services select; changes keep to them."""
        values = {f"svc-{number}" for number in range(min(services, self.values))}
        return [number for number in range(self.size) if self._labels[number]["svc"] in values]

    def burst(self, served: list[int], services: int, *, concerning: bool) -> list[Event]:
        """Return events of different pods, each with a decoded object.

        Args:
            served: see `served`.
            services: how many there are.
            concerning: let the first be of a served pod, which becomes ready or not, or goes from
                one service to another. The others, of any pods, concern no service.
        """
        numbers = self._random.sample(range(self.size), min(BURST, self.size))
        if concerning:
            first = self._random.choice(served)
            self._change(first, min(services, self.values))
            numbers = [first, *(number for number in numbers if number != first)][:BURST]
        pods = [self._pod(number, next(self._versions)) for number in numbers]
        return [{"type": "MODIFIED", "object": pod} for pod in workloads.decoded(pods)]

    def addresses(self, number: int) -> dict[str, bool]:
        """Return the addresses of the n-th service, and whether each is ready."""
        value = f"svc-{number % self.values}"
        return {
            _ip(pod): bool(self._ready[pod])
            for pod, labels in enumerate(self._labels)
            if labels["svc"] == value
        }

    def _change(self, number: int, values: int) -> None:
        if values == 1 or self._random.random() < _FLIPS:
            self._ready[number] ^= 1
        else:
            value = int(self._labels[number]["svc"].removeprefix("svc-"))
            other = (value + self._random.randrange(1, values)) % values
            self._labels[number]["svc"] = f"svc-{other}"

    def _pod(self, number: int, version: int) -> Object:
        pod = workloads.pod(number, NAMESPACE, self._labels[number])
        ready = "True" if self._ready[number] else "False"
        meta = {"resourceVersion": str(version), "annotations": {"checked": str(version)}}
        status = {"podIPs": [{"ip": _ip(number)}], "conditions": [_condition(ready)]}
        return {
            **pod,
            "metadata": {**pod["metadata"], **meta},
            "status": {**pod["status"], **status},
        }


def service_name(number: int) -> str:
    """Return the name of the n-th service."""
    return f"svc-{number:06d}"


def in_endpoints(endpoints: Object) -> dict[str, bool]:
    """Return the addresses of an Endpoints object, and whether each is ready."""
    return {
        address["ip"]: ready
        for subset in endpoints.get("subsets") or ()
        for field, ready in (("addresses", True), ("notReadyAddresses", False))
        for address in subset.get(field) or ()
    }


def in_slices(slices: Iterable[Object]) -> dict[str, bool]:
    """Return the addresses of the slices of a service, and whether each is ready."""
    return {
        endpoint["addresses"][0]: endpoint["conditions"]["ready"]
        for each in slices
        for endpoint in each.get("endpoints") or ()
    }


def _ip(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _condition(status: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _service(number: int, values: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(number),
            "namespace": NAMESPACE,
            "uid": f"service-{number}",
            "resourceVersion": str(1 + number),
        },
        "spec": {
            "selector": {"svc": f"svc-{number % values}"},
            "clusterIP": f"10.96.{number >> 8 & 255}.{number & 255}",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    }


def _node(number: int) -> Object:
    zone = {"topology.kubernetes.io/zone": f"zone-{number % _ZONES}"}
    return {
        "metadata": {"name": f"node-{number}", "resourceVersion": str(1 + number), "labels": zone},
        "status": {"allocatable": {"cpu": "8"}, "conditions": [_condition("True")]},
    }
