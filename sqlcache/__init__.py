"""An indexed cache of Kubernetes objects for Python controllers.

Pods and their labels live in SQLite, so that a whole label selector is one indexed query, behind
the same Store, Indexer and Lister interfaces as the dict store that client-go has.

    with sqlcache.open_store() as store:
        store.replace(pods, resource_version="1000")
        sqlcache.PodLister(store).pods("shop").list("app=web,tier in (a,b),!canary")

What is here is imported when it is asked for: the command line (`__main__`) takes care of Ctrl-C
before it loads anything large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlcache.lister import Lister, NamespaceLister, PodLister, ServiceLister
    from sqlcache.selectors import EVERYTHING, NOTHING, Selector, parse
    from sqlcache.store import open_store
    from sqlcache.store.api import Indexer, Store
else:
    from importlib import import_module

    _MODULES = {
        "sqlcache.lister": ("Lister", "NamespaceLister", "PodLister", "ServiceLister"),
        "sqlcache.selectors": ("EVERYTHING", "NOTHING", "Selector", "parse"),
        "sqlcache.store": ("open_store",),
        "sqlcache.store.api": ("Indexer", "Store"),
    }
    _MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
    _SUBMODULES = ("errors", "lister", "objects", "selectors", "store")

    def __getattr__(name):
        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return found

    def __dir__():
        return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})


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
