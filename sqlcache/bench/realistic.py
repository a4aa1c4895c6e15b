"""Pods of about 4 KB that look like those of a Deployment, as JSON bytes.

Fields, sizes and repetition follow the dumps of real clusters, without managedFields, which
informers commonly strip. What differs from pod to pod in a cluster differs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import orjson

from sqlcache.bench.workloads import BATCH
from sqlcache.objects import Objects

_APPS = 400
_NODES = 3000
NAMESPACES = tuple(f"team-{number:02d}" for number in range(40))
_NAMES = ("checkout", "catalog", "search", "ingest", "gateway", "billing", "notify", "profile")
_PARTS = ("api", "worker", "web", "cron", "cache", "proxy")
_WORDS = (
    "INFO", "primary", "replica", "postgres", "redis", "kafka", "true", "false", "eu-west-1",
    "http", "https", "grpc", "internal", "cluster", "local", "timeout", "batch", "queue",
)  # fmt: skip
_MINUTES_A_DAY = 1440


def realistic_pods(pods: int, seed: int) -> Iterator[bytes]:
    """Yield pods as JSON, one at a time, in random order of their apps."""
    random = Random(f"realistic {seed}")  # noqa: S311 - not for secrets
    apps = [_App(random, number) for number in range(min(_APPS, max(1, pods // 10)))]
    for number in range(pods):
        yield orjson.dumps(random.choice(apps).pod(random, number))


def decoded_batches(pods: int, seed: int) -> Iterator[Objects]:
    """Yield the same pods decoded, in batches of an informer's size."""
    documents = realistic_pods(pods, seed)
    while chunk := [orjson.loads(document) for document in islice(documents, BATCH)]:
        yield chunk


class _App:
    """A Deployment: what its pods have in common."""

    def __init__(self, random: Random, number: int) -> None:
        self.name = f"{random.choice(_NAMES)}-{random.choice(_PARTS)}-{number}"
        self.namespace = NAMESPACES[number % len(NAMESPACES)]
        self.template_hash = _letters(random, 10)
        self.replica_set_uid = _uid(random)
        self.tag = f"v{random.randrange(9)}.{random.randrange(30)}.{random.randrange(200)}"
        self.digest = f"{random.getrandbits(256):064x}"
        self.env = [
            {"name": f"{_word(random)}_{_word(random)}_{place}", "value": self._value(random)}
            for place in range(random.randint(8, 14))
        ]

    def _value(self, random: Random) -> str:
        return "-".join(random.choice(_WORDS) for _ in range(random.randint(1, 4)))

    def pod(self, random: Random, number: int) -> dict[str, Any]:
        """Return one of its pods."""
        name = f"{self.name}-{self.template_hash}-{_letters(random, 5)}"
        address = f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}"
        time = _time(random)
        token = f"kube-api-access-{_letters(random, 5)}"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(random, f"{name}{number}", address, time),
            "spec": self._spec(f"node-{random.randrange(_NODES):04d}", token),
            "status": self._status(random, address, time),
        }

    def _metadata(self, random: Random, name: str, address: str, time: str) -> dict[str, Any]:
        return {
            "name": name,
            "generateName": f"{self.name}-{self.template_hash}-",
            "namespace": self.namespace,
            "uid": _uid(random),
            "resourceVersion": str(random.randrange(10**9)),
            "creationTimestamp": time,
            "labels": {
                "app.kubernetes.io/name": self.name,
                "app.kubernetes.io/instance": f"{self.name}-{self.namespace}",
                "app.kubernetes.io/version": self.tag,
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": self.template_hash,
                "topology.kubernetes.io/zone": f"eu-west-1{random.choice('abc')}",
            },
            "annotations": {
                "checksum/config": self.digest,
                "cni.projectcalico.org/podIP": f"{address}/32",
                "prometheus.io/port": "9102",
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{self.name}-{self.template_hash}",
                    "uid": self.replica_set_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }

    def _spec(self, node: str, token: str) -> dict[str, Any]:
        return {
            "volumes": [
                {"name": "config", "configMap": {"name": self.name, "defaultMode": 420}},
                {
                    "name": token,
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {
                                "configMap": {
                                    "name": "kube-root-ca.crt",
                                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                                }
                            },
                        ],
                        "defaultMode": 420,
                    },
                },
            ],
            "containers": [self._container(token)],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": self.name,
            "nodeName": node,
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{reason}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for reason in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        }

    def _container(self, token: str) -> dict[str, Any]:
        probe = {
            "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        }
        return {
            "name": "main",
            "image": f"registry.example.com/{self.namespace}/{self.name}:{self.tag}",
            "ports": [
                {"name": "http", "containerPort": 8080, "protocol": "TCP"},
                {"name": "metrics", "containerPort": 9102, "protocol": "TCP"},
            ],
            "env": self.env,
            "resources": {
                "limits": {"cpu": "1", "memory": "512Mi"},
                "requests": {"cpu": "100m", "memory": "256Mi"},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/config"},
                {
                    "name": token,
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                },
            ],
            "livenessProbe": probe,
            "readinessProbe": probe,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    def _status(self, random: Random, address: str, time: str) -> dict[str, Any]:
        return {
            "phase": "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": time,
                }
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"192.168.{random.randrange(256)}.{random.randrange(256)}",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": time,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": time}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": f"registry.example.com/{self.namespace}/{self.name}:{self.tag}",
                    "imageID": f"registry.example.com/{self.name}@sha256:{self.digest}",
                    "containerID": f"containerd://{random.getrandbits(256):064x}",
                    "started": True,
                }
            ],
            "qosClass": "Burstable",
        }


def _letters(random: Random, length: int) -> str:
    return "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=length))


def _uid(random: Random) -> str:
    digits = f"{random.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _word(random: Random) -> str:
    return random.choice(_WORDS).replace("-", "_").upper()


def _time(random: Random) -> str:
    minute = random.randrange(_MINUTES_A_DAY)
    day, second = random.randint(1, 28), random.randrange(60)
    return f"2026-11-{day:02d}T{minute // 60:02d}:{minute % 60:02d}:{second:02d}Z"
