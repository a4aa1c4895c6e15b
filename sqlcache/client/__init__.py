"""What informers and controllers need of an API server, and ours.

`ListWatch` is two calls that speak decoded JSON, `ObjectsApi` the calls for single objects. Anybody
can supply their own, in a test or for another transport; on the `kubernetes` package there are
`ApiListWatch` in `sqlcache.client.transport` and `ApiObjects` in `sqlcache.client.objects`.

Elsewhere: when to list and when to watch (sqlcache.informer.reflector).
"""

from sqlcache.client.api import Event, ListWatch, ObjectsApi, Page, Resource, Watch

__all__ = ["Event", "ListWatch", "ObjectsApi", "Page", "Resource", "Watch"]
