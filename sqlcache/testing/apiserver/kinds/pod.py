"""Pods: the defaults of the API and of the admission plugins that every cluster runs.

Source: kubernetes apis/core/v1 defaults.go, registry/core/pod strategy.go, apis/core/validation;
plugin/pkg/admission priority, defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from sqlcache.objects import Object
from sqlcache.testing.apiserver.kinds.base import Strategy, carry, fill, items, section
from sqlcache.testing.apiserver.status import Cause, forbidden_value, not_supported, required

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_FINISHED = frozenset({"Failed", "Succeeded"})
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_TOLERATED_S = 300  # defaulttolerationseconds
_GRACE_S = 30
_UNCHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Pods."""

    starts_generation = True
    returns_deleted = True
    has_status = True
    metadata_checks = 4
    empty: ClassVar[Mapping[str, Any]] = {"spec": {"containers": None}, "status": {}}

    def default(self, obj: Object) -> None:
        spec = section(obj, "spec")
        fill(
            spec,
            restartPolicy="Always",
            terminationGracePeriodSeconds=_GRACE_S,
            dnsPolicy="ClusterFirst",
            securityContext={},
            schedulerName="default-scheduler",
            enableServiceLinks=True,
        )
        for container in _containers(spec):
            _default_container(container)
        _default_status(section(obj, "status"))

    def prepare_create(self, obj: Object) -> None:
        spec = section(obj, "spec")
        fill(spec, priority=0, preemptionPolicy="PreemptLowerPriority")
        _tolerate_node_failures(spec)
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        spec = section(new, "spec")
        for name in ("priority", "preemptionPolicy"):
            if name not in spec and name in old["spec"]:
                spec[name] = old["spec"][name]
        _tolerate_node_failures(spec)

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        carry(new["metadata"], old["metadata"], "ownerReferences")
        if qos := old.get("status", {}).get("qosClass"):
            section(new, "status")["qosClass"] = qos

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = []
        if not items(spec, "containers"):
            causes.append(required("spec.containers"))
        for index, container in enumerate(items(spec, "containers")):
            causes += [
                required(f"spec.containers[{index}].{field}")
                for field in ("name", "image")
                if not container.get(field)
            ]
        if spec["restartPolicy"] not in _RESTART_POLICIES:
            causes.append(
                not_supported("spec.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
            )
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if _fixed_part(new["spec"], old["spec"]) == old["spec"]:
            return []
        return [forbidden_value("spec", _UNCHANGEABLE)]

    def raises_generation(self, new: Object, old: Object) -> bool:
        return bool(new["spec"] != old["spec"])

    def grace_period_s(self, obj: Object, asked_s: int | None) -> int | None:
        spec = obj["spec"]
        if not spec.get("nodeName") or obj["status"].get("phase") in _FINISHED:
            return 0
        period_s = spec.get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
        return 1 if period_s < 0 else int(period_s)


def _containers(spec: Object) -> Iterator[Object]:
    for name in _CONTAINERS:
        yield from items(spec, name)


def _default_container(container: Object) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition("@")
    latest = not tag[1] and tag[0].partition(":")[2] in ("", "latest")
    fill(
        container,
        name="",
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    for port in items(container, "ports"):
        fill(port, protocol="TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _default_probe(container[probe])
    resources = container["resources"]
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        fill(section(resources, "requests"), **resources["limits"])


def _default_probe(probe: Object) -> None:
    fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if isinstance(probe.get("httpGet"), dict):
        fill(probe["httpGet"], path="/", scheme="HTTP")


def _default_status(status: Object) -> None:
    for condition in items(status, "conditions"):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in items(status, name):
            fill(each, name="", state={}, lastState={}, ready=False, image="", imageID="")
            fill(each, restartCount=0)
    if status.get("podIP"):
        ips = items(status, "podIPs")
        if not ips or ips[0].get("ip") != status["podIP"]:
            status["podIPs"] = [{"ip": status["podIP"]}]
    elif ips := items(status, "podIPs"):
        status["podIP"] = ips[0].get("ip", "")


def _tolerate_node_failures(spec: Object) -> None:
    tolerations = items(spec, "tolerations")
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(each, key) for each in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_S,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )


def _qos_class(spec: Object) -> str:
    resources = [each.get("resources") or {} for each in _containers(spec)]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (each.get("limits") or {}).keys()
        and each.get("requests") == each["limits"]
        for each in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _fixed_part(new: Object, old: Object) -> Object:
    """Return the new spec with everything that may change as it is in the old one."""
    fixed = dict(new)
    for name in ("activeDeadlineSeconds", *(["tolerations"] if _added(new, old) else [])):
        carry(fixed, old, name)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and (
        new.get("terminationGracePeriodSeconds") == 1
    ):
        carry(fixed, old, "terminationGracePeriodSeconds")
    for name in ("containers", "initContainers"):
        fixed_list = _with_images_of(items(new, name), items(old, name))
        if name in fixed:
            fixed[name] = fixed_list
    return fixed


def _added(new: Object, old: Object) -> bool:
    kept: list[Any] = items(new, "tolerations")
    return all(each in kept for each in items(old, "tolerations"))


def _with_images_of(new: list[Object], old: list[Object]) -> list[Object]:
    if len(new) != len(old):
        return new
    return [
        {**each, "image": before.get("image", "")} for each, before in zip(new, old, strict=True)
    ]
