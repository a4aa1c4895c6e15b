"""Informers: a store kept true to an API server, and handlers told of every change.

    store = sqlcache.open_store()
    with SharedInformer(list_watch, store, name="pods") as informer:
        informer.add_handler(HandlerFuncs(on_add=..., on_update=..., on_delete=...))
        informer.wait_for_sync(timeout=60)
        PodLister(store).pods("shop").list("app=web")

| file | holds |
|---|---|
| reflector.py | one list, then watches: what is asked of the server, and when |
| deltas.py | the queue between the reflector and the store |
| shared.py | SharedInformer: applies the queue to the store, tells handlers |
| handlers.py | handlers, their threads and registrations |
| factory.py | one informer a resource, shared |
| transforms.py, backoff.py, _metrics.py | parts |

Source: client-go tools/cache, Kubernetes 1.36.
"""

from sqlcache.informer._metrics import MetricsProvider
from sqlcache.informer.backoff import Backoff
from sqlcache.informer.factory import SharedInformerFactory
from sqlcache.informer.handlers import FilteringHandler, Handler, HandlerFuncs, Registration
from sqlcache.informer.reflector import ObjectType, Reflector
from sqlcache.informer.shared import SharedInformer
from sqlcache.informer.transforms import strip_managed_fields

__all__ = [
    "Backoff",
    "FilteringHandler",
    "Handler",
    "HandlerFuncs",
    "MetricsProvider",
    "ObjectType",
    "Reflector",
    "Registration",
    "SharedInformer",
    "SharedInformerFactory",
    "strip_managed_fields",
]
