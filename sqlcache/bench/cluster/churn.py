"""Pods that come, change and go, and the log of every state that each of them had.

A change is drawn at random: most give a pod another value of a label, another label or none; some
change nothing but its resourceVersion; some make, delete, or delete and make anew a pod, which
keeps its name then and gets another uid. The number of pods stays about the same.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sqlcache.objects import Object, Objects

if TYPE_CHECKING:
    from sqlcache.testing.apiserver import ApiServer

NAMESPACES = tuple(f"team-{number}" for number in range(10))
SENT = "sqlcache.bench/sent-ns"  # annotation: time.monotonic_ns() of the write
LABELS = {"app": 50, "tier": 10, "svc": 100, "zone": 3}  # number of values
DELETED = "DELETED"
_BURST = 10  # changes at a time, as they come in chunks of a stream
_SHARES = {"label": 0.5, "nothing": 0.2, "create": 0.1, "delete": 0.1, "recreate": 0.1}
_LESS_LABELS = 0.1  # of changed labels: taken away, or put back


class State(NamedTuple):
    """One state of one pod.

    Attributes:
        rv: its resourceVersion.
        kind: ADDED, MODIFIED or DELETED.
        key: `namespace/name`.
        digest: of the whole object, see `digest`.
    """

    rv: int
    kind: str
    key: str
    digest: int


def digest(obj: Object) -> int:
    """Return a checksum of an object's whole content."""
    return zlib.crc32(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS))


def new_pods(pods: int, seed: int) -> Objects:
    """Return small pods in `NAMESPACES` with the labels of `LABELS`."""
    random = Random(f"churn {seed}")  # noqa: S311 - not for secrets
    return [_pod(random, number) for number in range(pods)]


def label_questions() -> Iterator[tuple[str, str, str]]:
    """Yield namespace, key and value of every label that a pod can ever have."""
    for namespace in NAMESPACES:
        for key, values in LABELS.items():
            for number in range(values):
                yield namespace, key, f"{key}-{number}"


class Churn:
    """The pods of a server, and their changes.

    Attributes:
        states: of all pods from the first on, in the order of their resourceVersions.
        quiet: held by who raises the server's resourceVersion beside it.
    """

    def __init__(self, server: ApiServer, pods: Objects, seed: int) -> None:
        """Load pods into a server that has none; nobody else may write them.

        Args:
            server: holds the pods.
            pods: see `new_pods`; taken over.
            seed: what the changes are drawn from.
        """
        self._server, self._pods = server, pods
        self._random = Random(f"changes {seed}")  # noqa: S311 - not for secrets
        self._number = len(pods)
        self.quiet = threading.Lock()
        self.states: list[State] = []
        for pod in pods:
            self._write("ADDED", pod)

    def run(self, seconds: float, changes_per_s: float) -> None:
        """Make changes for a while, in bursts. One that is late is not left out."""
        clock, start = time.monotonic, time.monotonic()
        for number in range(max(1, int(seconds * changes_per_s / _BURST))):
            time.sleep(max(0.0, start + number * _BURST / changes_per_s - clock()))
            self.make(_BURST)

    def make(self, changes: int) -> None:
        """Make changes at once."""
        kinds = self._random.choices(list(_SHARES), list(_SHARES.values()), k=changes)
        for kind in kinds:
            with self.quiet:
                getattr(self, f"_{kind}")()

    def _label(self) -> None:
        pod = self._any()
        labels = pod["metadata"]["labels"]
        key = self._random.choice(list(LABELS))
        if key in labels and self._random.random() < _LESS_LABELS:
            del labels[key]
        else:
            labels[key] = _value(self._random, key)
        self._write("MODIFIED", pod)

    def _nothing(self) -> None:
        self._write("MODIFIED", self._any())

    def _create(self) -> None:
        self._number += 1
        pod = _pod(self._random, self._number)
        self._pods.append(pod)
        self._write("ADDED", pod)

    def _delete(self) -> None:
        if len(self._pods) > 1:
            place = self._random.randrange(len(self._pods))
            self._pods[place], self._pods[-1] = self._pods[-1], self._pods[place]
            self._remove(self._pods.pop())

    def _recreate(self) -> None:
        pod = self._any()
        self._remove(pod)
        pod["metadata"].pop("uid", None)
        self._write("ADDED", pod)

    def _any(self) -> Object:
        return self._random.choice(self._pods)

    def _write(self, kind: str, pod: Object) -> None:
        meta = pod["metadata"]
        meta["annotations"] = {SENT: str(time.monotonic_ns())}
        self._server.load("pods", [pod])
        stored = self._server.get("pods", meta["name"], meta["namespace"])
        meta["uid"] = stored["metadata"]["uid"]
        meta["creationTimestamp"] = stored["metadata"]["creationTimestamp"]
        self._note(kind, stored)

    def _remove(self, pod: Object) -> None:
        meta, before = pod["metadata"], int(self._server.resource_version)
        last = self._server.delete("pods", meta["name"], meta["namespace"])
        rv = int(last["metadata"]["resourceVersion"])
        if rv == before + 2:  # it was marked as being deleted before it went, as real pods are
            marked = {**last["metadata"], "resourceVersion": str(rv - 1)}
            self._note("MODIFIED", {**last, "metadata": marked})
        self._note(DELETED, last)

    def _note(self, kind: str, obj: Object) -> None:
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self.states.append(State(int(meta["resourceVersion"]), kind, key, digest(obj)))


def _pod(random: Random, number: int) -> Object:
    labels: dict[str, Any] = {key: _value(random, key) for key in LABELS}
    return {
        "metadata": {
            "name": f"pod-{number:06d}",
            "namespace": random.choice(NAMESPACES),
            "labels": labels,
        },
        "spec": {"nodeName": f"node-{number % 500}", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": f"10.0.{number >> 8 & 255}.{number & 255}"},
    }


def _value(random: Random, key: str) -> str:
    return f"{key}-{random.randrange(LABELS[key])}"
