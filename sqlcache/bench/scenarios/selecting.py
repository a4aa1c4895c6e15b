"""`selecting`: which services of a namespace select a pod, and what a change of a service costs.

Kubernetes' controllers ask this at every event of a pod, and scan all services of its namespace.
`pods` of a line is the number of services in the store. Services are changed one event at a time;
those that change are none that the pods asked for are selected by.

Elsewhere: pods by selector (queries), writes of pods (updates).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, cycle, islice
from random import Random
from typing import Any

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, answer
from sqlcache.bench.measuring import setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.objects import Object, Objects
from sqlcache.selectors import service_selector

SERVICES = (10, 100, 1_000, 5_000)
ASK = "services of a pod"  # each is followed by the number of services
SAME, OTHER = "service changed, same selector", "service changed, other selector"
_NAMESPACE = "shop"
_PODS = 20  # asked in turn
_CHECKED = 8
_LEAST_SAMPLES = 4


class Selecting(Workload):
    """Services of one namespace, each with a label of its own, and pods."""

    resource = "services"

    def prepare(self) -> list[Answer]:
        """Load the services; answer for some pods."""
        self.size = int(self.options["services"])
        random = Random(f"selecting {self.parameters.seed}")  # noqa: S311 - not for secrets
        with setting_up():
            self.services = workloads.decoded(_service(number) for number in range(self.size))
            self.subject.load(self.services)
        numbers = random.choices(range(self.size // 2), k=_PODS)
        self.pods = [_labels(number, random) for number in numbers]
        return [answer(self.ask(labels)) for labels in self.pods[:_CHECKED]]

    def ask(self, labels: dict[str, str]) -> Objects:
        """Return the services that select a pod with these labels."""
        return self.subject.store.selecting(_NAMESPACE, labels)

    def line(self, what: str) -> str:
        """Return the name of a line of the table."""
        return f"{what}, {self.size:,} services"

    def cells(self) -> Sequence[Cell]:
        """Return the question and the two kinds of change."""
        return [_Ask(self), _Change(self, SAME), _Change(self, OTHER)]


class _Ask(Cell):
    def __init__(self, workload: Selecting) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload, parameters = self.workload, self.workload.parameters
        matches = sorted(len(workload.ask(labels)) for labels in workload.pods)[_PODS // 2]
        result = Measurement(workload.line(ASK), "repeat", workload.size, matches)
        most = 2 * parameters.samples // parameters.rounds
        calls = ((number % _PODS, self._call(number)) for number in range(most))
        for number, elapsed, objs in timed(calls, workload.timed_s, _LEAST_SAMPLES):
            result.samples_us.append(elapsed)
            result.answers[str(number)] = answer(objs)
        return [result]

    def _call(self, number: int) -> Callable[[], Objects]:
        labels = self.workload.pods[number % _PODS]
        return lambda: self.workload.ask(labels)


class _Change(Cell):
    def __init__(self, workload: Selecting, kind: str) -> None:
        self.workload, self.kind = workload, kind
        asked = [service for labels in workload.pods for service in workload.ask(labels)]
        names = {service["metadata"]["name"] for service in asked}
        rest = workload.services[workload.size // 2 :]
        idle = [service for service in rest if service["metadata"]["name"] not in names]
        self._turn = cycle(idle[: len(idle) // 2] if kind == SAME else idle[len(idle) // 2 :])
        self._versions = count(10_000_000)

    def measure(self, round_number: int) -> list[Measurement]:
        workload, parameters = self.workload, self.workload.parameters
        line = workload.line(self.kind)
        result = Measurement(line, "batches of 1", workload.size, fields={"batch": 1})
        most = parameters.samples // parameters.rounds
        events = (self._event() for _ in count())
        for event in islice(events, 1):  # wakes the process and its caches
            workload.subject.store.apply([event])
        calls = ((event, _applied(workload, event)) for event in islice(events, most))
        for event, elapsed, _ in timed(calls, workload.timed_s, _LEAST_SAMPLES):
            result.samples_us.append(elapsed)
            result.wrong = result.wrong or _wrong(workload, event["object"])
        return [result]

    def _event(self) -> dict[str, Any]:
        service, version = next(self._turn), str(next(self._versions))
        selector = service["spec"]["selector"]
        if self.kind == OTHER:
            selector = {**selector, "svc": f"other-{version}"}
        changed = {
            **service,
            "metadata": {**service["metadata"], "resourceVersion": version},
            "spec": {**service["spec"], "selector": selector},
        }
        return {"type": "MODIFIED", "object": workloads.decoded([changed])[0]}


def _applied(workload: Selecting, event: dict[str, Any]) -> Callable[[], None]:
    return lambda: workload.subject.store.apply([event])


def _wrong(workload: Selecting, service: Object) -> str | None:
    """Return what is wrong with the answer for a pod that a service must select by now."""
    labels = {term.key: term.values[0] for term in service_selector(service).requirements}
    if service in workload.ask(labels):
        return None
    return f"{service['metadata']['name']} is not among the services that select {labels}"


def _service(number: int) -> Object:
    """Return a service of its own label; every tenth shares one with others."""
    own = {"svc": f"svc-{number}", "tier": f"tier-{number % 10}"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"svc-{number:06d}",
            "namespace": _NAMESPACE,
            "resourceVersion": str(1000 + number),
            "labels": {"app": f"app-{number % 100}"},
        },
        "spec": {
            "selector": {"app": f"app-{number % 100}"} if number % 10 == 9 else own,
            "clusterIP": f"10.96.{number >> 8 & 255}.{number & 255}",
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _labels(number: int, random: Random) -> dict[str, str]:
    return {
        "svc": f"svc-{number}",
        "app": f"app-{random.randrange(100)}",
        "env": f"env-{random.randrange(4)}",
        "tier": f"tier-{number % 10}",
        "zone": f"zone-{random.randrange(3)}",
    }
