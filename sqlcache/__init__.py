"""An indexed cache of Kubernetes objects for Python controllers.

Pods and their labels live in SQLite, so that a whole label selector is one indexed query, behind
the same Store, Indexer and Lister interfaces as the dict store that client-go has.

    with sqlcache.open_store() as store:
        store.replace(pods, resource_version="1000")
        sqlcache.PodLister(store).pods("shop").list("app=web,tier in (a,b),!canary")
"""

from sqlcache.lister import Lister, NamespaceLister, PodLister, ServiceLister
from sqlcache.selectors import EVERYTHING, NOTHING, Selector, parse
from sqlcache.store import open_store
from sqlcache.store.api import Indexer, Store

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Indexer",
    "Lister",
    "NamespaceLister",
    "PodLister",
    "Selector",
    "ServiceLister",
    "Store",
    "open_store",
    "parse",
]
__version__ = "0.1.0"
