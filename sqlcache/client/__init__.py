"""Lists and watches of an API server: what an informer needs, and ours.

`ListWatch` is two calls that speak decoded JSON. Anybody can supply their own, in a test or for
another transport; `sqlcache.client.transport` has the one on the `kubernetes` package.

Elsewhere: when to list and when to watch (sqlcache.informer.reflector).
"""

from sqlcache.client.api import Event, ListWatch, Page, Watch

__all__ = ["Event", "ListWatch", "Page", "Watch"]
