"""What kubectl says of a pod: its ready containers, its status in one word, its restarts.

The word is that of the first init container that holds the pod up ("Init:0/2",
"Init:CrashLoopBackOff"), else of the first container that is not running ("CrashLoopBackOff",
"Error", "Completed"), else the pod's phase; "Terminating" goes before them all.

Source: kubernetes pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlcache.cli._ages import age, timestamp
from sqlcache.cli._fields import mapping, mappings, number, text
from sqlcache.objects import Object

_TERMINAL = ("Succeeded", "Failed")


class Restarts:
    """A sum of restart counts, and when the latest restart was."""

    def __init__(self) -> None:
        """Start without restarts."""
        self.count = 0
        self.last: datetime | None = None

    def add(self, container: Mapping[str, Any]) -> None:
        """Add those of a container's status."""
        self.count += number(container.get("restartCount"))
        before = mapping(mapping(container.get("lastState")).get("terminated"))
        finished = timestamp(before.get("finishedAt"))
        if finished is not None and (self.last is None or finished > self.last):
            self.last = finished

    def text(self, now: datetime) -> str:
        """Return the cell: "3 (5m ago)"."""
        if not self.count or self.last is None:
            return str(self.count)
        return f"{self.count} ({age(self.last.isoformat(), now)} ago)"


class PodState(NamedTuple):
    """A pod's containers in short.

    Attributes:
        ready: number of ready containers, sidecars included.
        total: number of containers, sidecars included.
        status: the word for it.
        restarts: those of the init containers while they run, then those of the others.
    """

    ready: int
    total: int
    status: str
    restarts: Restarts


def pod_state(pod: Object) -> PodState:
    """Return the state of a pod."""
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    init = _init_state(spec, status)
    total = len(mappings(spec.get("containers"))) + len(_sidecars(spec))
    word = init.status or _phase(status)
    ready, restarts = init.ready, init.restarts
    if not init.status or condition(status, "Initialized"):
        restarts = init.sidecar_restarts
        running = False
        for container in reversed(mappings(status.get("containerStatuses"))):
            restarts.add(container)
            stopped = _stopped(container)
            if stopped:
                word = stopped
            elif container.get("ready") is True and _state(container, "running") is not None:
                running = True
                ready += 1
        if word == "Completed" and running:
            word = "Running" if condition(status, "Ready") else "NotReady"
    return PodState(ready, total, _terminating(pod, status) or word, restarts)


def condition(status: Mapping[str, Any], name: str) -> bool:
    """Tell whether a condition of a pod's status is true."""
    return any(
        entry.get("type") == name and entry.get("status") == "True"
        for entry in mappings(status.get("conditions"))
    )


class _InitState(NamedTuple):
    status: str  # "" when no init container holds the pod up
    ready: int  # sidecars
    restarts: Restarts
    sidecar_restarts: Restarts


def _init_state(spec: Mapping[str, Any], status: Mapping[str, Any]) -> _InitState:
    sidecars = _sidecars(spec)
    restarts, of_sidecars = Restarts(), Restarts()
    ready = 0
    for position, container in enumerate(mappings(status.get("initContainerStatuses"))):
        is_sidecar = container.get("name") in sidecars
        restarts.add(container)
        if is_sidecar:
            of_sidecars.add(container)
        terminated = _state(container, "terminated")
        if terminated is not None and not number(terminated.get("exitCode")):
            continue
        if is_sidecar and container.get("started") is True:
            ready += container.get("ready") is True
            continue
        waiting = text(mapping(_state(container, "waiting")).get("reason"))
        if terminated is not None:
            word = _exit(terminated)
        elif waiting and waiting != "PodInitializing":
            word = waiting
        else:
            word = f"{position}/{len(mappings(spec.get('initContainers')))}"
        return _InitState(f"Init:{word}", ready, restarts, of_sidecars)
    return _InitState("", ready, restarts, of_sidecars)


def _sidecars(spec: Mapping[str, Any]) -> list[str]:
    """Return the names of the init containers that go on running."""
    return [
        text(container.get("name"))
        for container in mappings(spec.get("initContainers"))
        if container.get("restartPolicy") == "Always"
    ]


def _phase(status: Mapping[str, Any]) -> str:
    for entry in mappings(status.get("conditions")):
        if entry.get("type") == "PodScheduled" and entry.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return text(status.get("reason")) or text(status.get("phase"))


def _stopped(container: Mapping[str, Any]) -> str:
    """Return why a container does not run, "" if it does."""
    waiting = text(mapping(_state(container, "waiting")).get("reason"))
    if waiting:
        return waiting
    terminated = _state(container, "terminated")
    return "" if terminated is None else _exit(terminated)


def _exit(terminated: Mapping[str, Any]) -> str:
    reason, signal = text(terminated.get("reason")), number(terminated.get("signal"))
    if reason:
        return reason
    return f"Signal:{signal}" if signal else f"ExitCode:{number(terminated.get('exitCode'))}"


def _state(container: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    state = mapping(container.get("state")).get(name)
    return state if isinstance(state, dict) else None


def _terminating(pod: Object, status: Mapping[str, Any]) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _TERMINAL else "Terminating"
