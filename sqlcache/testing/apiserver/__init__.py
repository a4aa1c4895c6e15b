"""A small, real Kubernetes API server for tests and demos, on 127.0.0.1 over plain HTTP.

    from sqlcache.testing.apiserver import ApiServer

    with ApiServer() as server:
        server.create("pods", {"metadata": {"name": "a"}, "spec": {"containers": [...]}})
        ...  # any client at server.url

It serves pods, services, nodes, namespaces, endpoints, endpointslices, events, leases, and what is
registered. No controller runs: nothing happens but what clients do.

| module | about |
|---|---|
| `server` | `ApiServer`: thread, socket, direct access for tests |
| `http`, `answers` | requests, answers, streams |
| `routes`, `discovery` | paths, and the documents that name them |
| `negotiation`, `bodies` | what clients accept and send |
| `listing`, `watching` | lists with pages, watches with bookmarks |
| `registry`, `deletion`, `patches` | writes |
| `kinds`, `schema`, `names` | defaults, validation and fields of each kind |
| `storage` | objects, one resourceVersion, the changes remembered |
| `faults` | trouble on demand |
| `status` | errors as the real server words them |

Flow: http -> registry -> storage -> watching -> http.

It shares no code with the informer and the client that it tests, only selectors and errors.
The reference is kube-apiserver 1.36, compared in tests/golden/test_apiserver.py.
"""

try:
    import aiohttp  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sqlcache.testing.apiserver needs: pip install 'sqlcache[testing]'"
    ) from error

from sqlcache.testing.apiserver.faults import Fault, Faults, Target
from sqlcache.testing.apiserver.http import RequestRecord
from sqlcache.testing.apiserver.resources import Resource, custom_resource
from sqlcache.testing.apiserver.server import ApiServer
from sqlcache.testing.apiserver.status import ApiError

__all__ = [
    "ApiError",
    "ApiServer",
    "Fault",
    "Faults",
    "RequestRecord",
    "Resource",
    "Target",
    "custom_resource",
]
