"""A factory that keeps one informer a resource, for all who need it.

Source: client-go informers.SharedInformerFactory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from sqlcache.client.api import ListWatch
from sqlcache.clock import Clock, MonotonicClock
from sqlcache.informer.shared import SharedInformer
from sqlcache.lister import Lister
from sqlcache.store import open_store
from sqlcache.store.api import Indexer


class SharedInformerFactory:
    """Makes informers, each with a store of its own, and starts and stops them together.

    Example:
        >>> with SharedInformerFactory(new_list_watch) as factory:
        ...     pods = factory.informer("pods")
        ...     pods.add_handler(handler)
        ...     factory.start()
        ...     factory.wait_for_sync(timeout=60)
    """

    def __init__(
        self,
        list_watch: Callable[[str], ListWatch],
        *,
        store: Callable[[str], Indexer] | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        """Make a factory.

        Args:
            list_watch: makes the ListWatch of a resource, by the name given to `informer`.
            store: opens its store; default: `open_store(None, resource)`.
            clock: for tests.
            options: of every `SharedInformer`, such as `resync_period_s` and `transform`.
        """
        self._list_watch = list_watch
        self._open = store or (lambda resource: open_store(None, resource))
        self._clock = clock or MonotonicClock()
        self._options = options
        self._lock = threading.Lock()
        self._informers: dict[str, SharedInformer] = {}

    def informer(self, resource: str, **options: Any) -> SharedInformer:
        """Return the informer of a resource: a new one, not started, for the first who asks.

        Args:
            resource: any name; by convention the plural, `deployments.apps` with a group.
            options: of `SharedInformer`; ignored if the informer is there already.
        """
        with self._lock:
            informer = self._informers.get(resource)
            if informer is None:
                chosen = {"name": resource, "description": resource, **self._options, **options}
                informer = SharedInformer(
                    self._list_watch(resource), self._open(resource), clock=self._clock, **chosen
                )
                self._informers[resource] = informer
            return informer

    def lister(self, resource: str, singular: str = "") -> Lister:
        """Return a lister of the informer's store.

        Args:
            resource: as for `informer`.
            singular: the name of one, for messages.
        """
        return Lister(self.informer(resource).store, singular or resource)

    def start(self) -> None:
        """Start the informers that are not started yet."""
        for informer in self._all():
            if not informer.is_started():
                informer.start()

    def wait_for_sync(self, timeout: float | None = None) -> dict[str, bool]:
        """Wait until the first lists of all started informers are in their stores.

        Args:
            timeout: seconds for all together; None waits for ever.

        Returns:
            Whether each is, by resource.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._lock:
            started = {name: each for name, each in self._informers.items() if each.is_started()}
        return {
            name: informer.wait_for_sync(
                None if deadline is None else max(0.0, deadline - self._clock.now())
            )
            for name, informer in started.items()
        }

    def unsynced(self) -> list[str]:
        """Return the names of the informers whose first lists are not in their stores yet."""
        return [informer.name for informer in self._all() if not informer.has_synced()]

    def stop(self) -> None:
        """Stop all informers, side by side; their stores stay open."""
        threads = [
            threading.Thread(target=informer.stop, name=f"{informer.name}-stop")
            for informer in self._all()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Stop all informers and close their stores."""
        self.stop()
        for informer in self._all():
            informer.store.close()

    def __enter__(self) -> Self:
        """Return the factory; leaving the `with` closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all informers and close their stores."""
        self.close()

    def _all(self) -> list[SharedInformer]:
        with self._lock:
            return list(self._informers.values())
