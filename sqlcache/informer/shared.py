"""SharedInformer: a store kept true to an API server, and handlers that are told of its changes.

Flow: reflector thread -> delta queue -> this informer's thread: store, then handlers' queues ->
one thread a handler.

Promises
- Only the informer writes the store, and a batch of events is one transaction. Handlers are told
  after it was committed, so a lister is at least as new as the event.
- A store that an earlier informer left complete, from an equal source, is taken up again: handlers
  are told at once what it holds, the watch goes on from its resourceVersion, and `has_synced` waits
  until the server confirmed that. If it does not, the first list is compared with the store.
- Any other store that is not empty is reconciled by the first list: what that has is told as added,
  what is gone as tombstones. In both cases readers see no empty moment.
- The store bears the name of its source only while nothing is missing in it: never during a relist,
  nor after an object was refused by the transform or the store.
- A relist replaces the content first; then handlers are told of what is gone (tombstones), then
  of the rest in the order of the list.
- If a store refuses an object, that object is logged and lost until it changes or a relist; if it
  fails altogether, a relist follows after the back-off, and `has_synced` waits for it.

Elsewhere: requests and their back-off (informer.reflector), handlers (informer.handlers), content
and queries (sqlcache.store, sqlcache.lister).
Source: client-go tools/cache shared_informer.go, controller.go.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from types import TracebackType
from typing import Self, TypeVar, cast

from sqlcache.client.api import Event, ListWatch
from sqlcache.clock import Clock, MonotonicClock, StopSignal, paced
from sqlcache.errors import DatabaseError, InformerStateError
from sqlcache.informer._metrics import MetricsProvider, ReflectorMetrics
from sqlcache.informer.backoff import Backoff
from sqlcache.informer.deltas import (
    BATCH_EVENTS,
    Again,
    Delta,
    DeltaQueue,
    DeltaType,
    Entry,
    Replacement,
    entries,
)
from sqlcache.informer.handlers import (
    Added,
    Deleted,
    Handler,
    Notification,
    Registration,
    Updated,
    is_again,
)
from sqlcache.informer.pieces import Pieces, Spread
from sqlcache.informer.reflector import ObjectType, Reflector
from sqlcache.objects import (
    DeletedFinalStateUnknown,
    Indexers,
    Object,
    Objects,
    TransformFunc,
    deletion_handling_meta_namespace_key_func,
    resource_version,
)
from sqlcache.store.api import Indexer

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

SHORTEST_RESYNC_S = 1.0  # client-go's minimumResyncPeriod
# Readers of a store in memory wait while a part of a relist is written or looked up: some 2 ms.
CHUNK_EVENTS = BATCH_EVENTS
FILL_EVENTS = 2_000  # of an empty store, which nobody reads yet: larger ones do not cost less
LOOKED_UP = 200  # objects
STOP_S = 0.8  # of real time; after it, a thread that is stuck in foreign code is left to itself


class _StoppedError(Exception):
    """The informer was stopped in the middle of something long."""


class SharedInformer:
    """See the module. Every method may be called from any thread.

    Example:
        >>> with SharedInformer(list_watch, store) as informer:
        ...     informer.add_handler(HandlerFuncs(on_add=lambda pod, _: print(pod)))
        ...     informer.wait_for_sync(timeout=60)
    """

    def __init__(
        self,
        list_watch: ListWatch,
        store: Indexer,
        *,
        name: str = "informer",
        description: str = "objects",
        expected: ObjectType | None = None,
        resync_period_s: float = 0.0,
        transform: TransformFunc | None = None,
        use_watch_list: bool = True,
        page_objects: int | None = None,
        on_watch_error: Callable[[Exception], None] | None = None,
        on_store_error: Callable[[Exception], None] | None = None,
        metrics: MetricsProvider | None = None,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make an informer. Nothing happens before `start`.

        Args:
            list_watch: the resource. If it has a `source`, its watch is resumed where the store
                was filled from an equal one.
            store: is kept true; the caller closes it, after `stop`.
            name: of its threads and in logs.
            description: the type of its objects in messages.
            expected: watch events with other objects are skipped.
            resync_period_s: how often handlers that ask for nothing else get all objects again;
                0 for never, then no handler can ask for it.
            transform: runs on each object before it is stored; see `informer.transforms`. Its name
                is part of the source, so one without, such as a lambda, rules resuming out.
            use_watch_list: try a streaming list first.
            page_objects: page size of all lists; default: client-go's rules.
            on_watch_error: told why a list or watch failed, before the back-off; default: log it.
            on_store_error: told why the store failed, such as a full disk, before everything is
                listed again; default: log it.
            metrics: makes the metrics of its lists and watches; see `sqlcache.metrics`.
            backoff: the delays, for tests.
            clock: for tests.
            rng: source of jitter and watch timeouts, for tests.
        """
        self.store, self.name = store, name
        self._list_watch, self._description, self._expected = list_watch, description, expected
        self._default_resync_s = self._resync_check_s = resync_period_s
        self._transform, self._on_watch_error = transform, on_watch_error
        self._on_store_error = on_store_error or self._log_store_error
        self._use_watch_list, self._page_objects = use_watch_list, page_objects
        self._clock = clock or MonotonicClock()
        self._backoff, self._rng = backoff, rng
        self._metrics = ReflectorMetrics(metrics, name) if metrics else None
        # _deltas is held while a batch is applied and handed out, which can take long; _state only
        # for moments, to start, stop and change the registrations. _deltas is taken first.
        self._deltas, self._state = threading.Lock(), threading.Lock()
        self._sync_changed = self._clock.condition()
        self._synced = False
        self._started = self._stopped = False
        self._stop = StopSignal(self._clock)
        self._registrations: dict[Registration, None] = {}
        self._handler_number = 0
        self._source = ""  # of what is listed, as transformed
        self._noted = ""  # the source that the store bears
        self._whole = True  # nothing that it should have got is missing in the store
        self._told = False  # handlers know what the store holds
        self._queue: DeltaQueue | None = None
        self._reflector: Reflector | None = None
        self._threads: list[threading.Thread] = []

    # Life

    def start(self) -> None:
        """Begin to list, watch and call handlers, in threads; a second call is only logged.

        If the store is taken up again and there are handlers, its objects are read before this
        returns.

        Raises:
            StoreClosedError: the store is closed.
        """
        with self._deltas:
            with self._state:
                if self._started or self._stopped:
                    _LOG.warning("%s: an informer can be started only once", self.name)
                    return
                self._started = True
                registrations = list(self._registrations)
            self._start(self._take_up(registrations))

    def _start(self, resume_from: str) -> None:
        with self._state:
            if self._stopped:
                return
            for registration in self._registrations:
                registration.start()
            queue = self._queue = DeltaQueue(self._clock, self._transform)
            self._stop.call(queue.close)
            reflector = self._reflector = self._new_reflector(queue, resume_from)
            self._threads = [
                threading.Thread(target=run, args=args, name=f"{self.name}-{part}", daemon=True)
                for part, run, args in (
                    ("reflector", reflector.run, ()),
                    ("store", self._process_loop, (queue, reflector)),
                )
            ]
            for thread in self._threads:
                thread.start()

    def _take_up(self, registrations: Sequence[Registration]) -> str:
        """Tell handlers what the store holds, if that can be resumed; return where from, or ""."""
        self._source = _source(self._list_watch, self._transform)
        try:
            self._noted = self.store.source()
            rv = self.store.last_store_sync_resource_version()
            if not self._source or self._noted != self._source or rv in ("", "0"):
                return ""
            held = [Added(obj, True) for obj in self.store.list()] if registrations else []
        except DatabaseError:
            _LOG.exception("%s: what the store holds cannot be read, listing", self.name)
            return ""
        for registration in registrations:
            registration.notify(held)
        self._told = True
        return rv

    def stop(self) -> None:
        """End everything, within a second; twice is harmless. The store can still be read.

        Notifications that wait are dropped. A handler that does not return, or a ListWatch that
        ignores its stop signal, is left to itself and logged.
        """
        with self._state:
            self._stopped = True
            threads, registrations = list(self._threads), list(self._registrations)
        deadline = time.monotonic() + STOP_S
        self._stop.set()
        for registration in registrations:
            registration.end()
        stuck = [
            thread.name
            for thread in threads
            if thread is not threading.current_thread() and not _joined(thread, deadline)
        ]
        stuck += [
            registration.name
            for registration in registrations
            if not registration.join(deadline - time.monotonic())
        ]
        with self._sync_changed:
            self._sync_changed.notify_all()
        if stuck:
            _LOG.warning("%s: still busy after stop(): %s", self.name, ", ".join(stuck))

    def __enter__(self) -> Self:
        """Start; leaving the `with` stops."""
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def is_started(self) -> bool:
        """Return whether `start` was called."""
        return self._started

    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def has_synced(self) -> bool:
        """Return whether the first list is in the store, or the server let it be taken up again.

        See also `Registration.has_synced`.
        """
        return self._synced

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait for `has_synced`.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            Whether it has; False after the timeout, or when the informer is stopped first.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._sync_changed:
            while not self._synced and not self._stopped:
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    break
                self._sync_changed.wait(left)
            return self._synced

    def last_sync_resource_version(self) -> str:
        """Return the resourceVersion that the server was seen at; the store may be behind it."""
        reflector = self._reflector
        return reflector.last_sync_resource_version() if reflector else ""

    # Settings

    def set_transform(self, transform: TransformFunc | None) -> None:
        """Have each object changed before it is stored.

        Raises:
            InformerStateError: the informer has started.
        """
        with self._state:
            self._check_not_started()
            self._transform = transform

    def set_watch_error_handler(self, handler: Callable[[Exception], None]) -> None:
        """Be told why a list or watch failed.

        Raises:
            InformerStateError: the informer has started.
        """
        with self._state:
            self._check_not_started()
            self._on_watch_error = handler

    def add_indexers(self, indexers: Indexers) -> None:
        """Add index functions to the store; also after `start`.

        Raises:
            InformerStateError: the informer was stopped.
            IndexerConflictError, IndexFunctionError: as `Indexer.add_indexers`.
        """
        if self._stopped:
            raise InformerStateError("indexer was not added because it has stopped already")
        self.store.add_indexers(indexers)

    def add_handler(
        self, handler: Handler, *, resync_period_s: float | None = None
    ) -> Registration:
        """Have a handler told of all objects there are and of every change from then on.

        Args:
            handler: gets its own thread.
            resync_period_s: how often it gets all objects again, at least 1 s; after `start` at
                least the informer's check period; 0 for never; None for the informer's own.

        Raises:
            InformerStateError: the informer was stopped.
        """
        with self._state:
            self._check_not_stopped(handler)
            registration = self._new_registration(handler, resync_period_s)
            if not self._started:
                self._registrations[registration] = None
                return registration
        with self._deltas:  # nothing changes between the objects there are and the first event
            objs = self.store.list() if self._told else []  # or the first list tells them
            registration.notify([Added(obj, is_in_initial_list=True) for obj in objs])
            with self._state:
                self._check_not_stopped(handler)
                self._registrations[registration] = None
                registration.start()
            if self._synced:
                registration.upstream_synced()
        return registration

    def remove_handler(self, registration: Registration) -> None:
        """Tell a handler nothing more. Twice, or after `stop`, is harmless.

        The call that it is in goes on; `Registration.join` waits for it.
        """
        with self._state:
            self._registrations.pop(registration, None)
        registration.end()

    def _new_registration(self, handler: Handler, resync_period_s: float | None) -> Registration:
        wanted = self._default_resync_s if resync_period_s is None else resync_period_s
        wanted = self._possible_resync(wanted)
        self._handler_number += 1
        return Registration(
            handler,
            f"{self.name}-handler-{self._handler_number}",
            self._clock,
            self._actual_resync(wanted),
            wanted,
            self.store.get_by_keys,
        )

    def _check_not_stopped(self, handler: Handler) -> None:
        if self._stopped:
            raise InformerStateError(
                f"handler {handler!r:.200} was not added to shared informer"
                " because it has stopped already"
            )

    def _check_not_started(self) -> None:
        if self._started:
            raise InformerStateError("informer has already started")

    # Resync

    def _possible_resync(self, wanted_s: float) -> float:
        """Return the period a new handler gets; before start it may shorten the check period."""
        if wanted_s <= 0:
            return 0.0
        period = max(wanted_s, SHORTEST_RESYNC_S)
        if period < self._resync_check_s:
            if self._started:
                period = self._resync_check_s
            else:
                self._resync_check_s = period
                for registration in self._registrations:
                    registration.set_resync_period(self._actual_resync(registration.wanted_s))
        if period > wanted_s:
            _LOG.warning("%s: resync period raised from %s s to %s s", self.name, wanted_s, period)
        return period

    def _actual_resync(self, wanted_s: float) -> float:
        if not wanted_s or not self._resync_check_s:
            return 0.0
        return max(wanted_s, self._resync_check_s)

    def _resync_loop(self, ended: StopSignal) -> None:
        queue = self._queue
        while queue is not None and not ended.sleep(self._resync_check_s):
            now = self._clock.now()
            registrations = self._handlers()
            for registration in registrations:
                registration.resyncing = registration.due(now)
            if any(registration.resyncing for registration in registrations):
                queue.resync()

    # The informer's thread

    def _new_reflector(self, queue: DeltaQueue, resume_from: str) -> Reflector:
        return Reflector(
            self._list_watch,
            queue,
            clock=self._clock,
            stop=self._stop,
            name=self.name,
            description=self._description,
            expected=self._expected,
            use_watch_list=self._use_watch_list,
            page_objects=self._page_objects,
            resume_from=resume_from,
            backoff=self._backoff,
            rng=self._rng,
            share=lambda objs: self._share(queue, objs),
            resyncs=self._resync_loop if self._resync_check_s else None,
            on_error=self._on_watch_error,
            metrics=self._metrics,
        )

    def _process_loop(self, queue: DeltaQueue, reflector: Reflector) -> None:
        for _ in paced(repeat(None)):  # without end; there may be many batches at once
            try:
                if not queue.pop_batch(self._process):
                    return
            except Exception as error:  # noqa: BLE001 - the thread must outlive any failure
                if self._stop.is_set():
                    return
                self._on_store_error(error)
                self._whole = False
                reflector.relist()
            if queue.has_synced() and not self._synced:
                self._become_synced()

    def _log_store_error(self, error: Exception) -> None:
        _LOG.error("%s: the store failed, listing again", self.name, exc_info=error)

    def _become_synced(self) -> None:
        with self._deltas:
            with self._sync_changed:
                self._synced = True
                self._sync_changed.notify_all()
            for registration in self._handlers():
                registration.upstream_synced()

    def _process(self, deltas: Sequence[Delta], initial: bool) -> None:
        with self._deltas:
            if not self._whole:
                self._note_source("")  # before the store moves past what is missing
            first = deltas[0]
            if first.type is DeltaType.REPLACED_ALL:
                self._replace(first.object, initial)
            elif first.type is DeltaType.SYNC_ALL:
                self._tell(self._again())
            elif first.type is DeltaType.BOOKMARK:
                self.store.bookmark(first.object)
            elif first.type is DeltaType.LOST:
                self._whole = False
            else:
                self._apply(deltas, initial)

    def _note_source(self, source: str) -> None:
        if self._noted != source:
            self.store.set_source(source)
            self._noted = source

    def _apply(self, deltas: Sequence[Delta], initial: bool) -> None:
        """Apply events of different keys in one transaction, or one by one if one is refused."""
        changed = [delta.key for delta in deltas if delta.type is not DeltaType.DELETED]
        olds = self.store.get_by_keys(changed) if self._registrations else {}
        notifications = [self._notification(delta, olds, initial) for delta in deltas]
        try:
            self.store.apply([_event(delta) for delta in deltas])
        except ValueError:
            for delta, notification in zip(deltas, notifications, strict=True):
                if self._apply_one(delta.key, _event(delta)):
                    self._tell([[notification]])
        else:
            self._tell([notifications])

    def _apply_one(self, key: str, *events: Event) -> bool:
        """Apply the event of one object; return whether the store took it."""
        try:
            self.store.apply(events)
        except ValueError:
            _LOG.exception("%s: the store refused %s", self.name, key)
            self._whole = False
            self._note_source("")
            return False
        return True

    def _notification(
        self, delta: Delta, olds: Mapping[str, Object], initial: bool
    ) -> Notification:
        obj = delta.object
        if delta.type is DeltaType.DELETED:
            return Deleted(obj)
        old = olds.get(delta.key)
        return Added(obj, initial) if old is None else _updated(old, obj)

    def _replace(self, new: Replacement, initial: bool) -> None:
        """Make the store hold a list, then tell what is gone, then tell the rest."""
        known, absent = self._compared(new.entries)
        changed: Pieces[Delta] = Pieces()
        news: Pieces[Notification | Again] = Pieces()
        for keys in self._going_on(_chunks(absent, LOOKED_UP)):
            lost = self.store.get_by_keys(keys)
            for key in keys:
                changed.append(Delta(DeltaType.DELETED, key, lost.get(key)))
                news.append(Deleted(DeletedFinalStateUnknown(key, lost.get(key))))
        for piece in new.entries.drained():
            told = self._news(piece, changed, initial=initial, known=known)
            if self._registrations:
                news.adopt(told)
        written: Spread[bool] = Spread()  # what is to be, whether it is
        for delta in self._going_on(changed):
            written[delta.key] = False
        try:
            refused = self._write(changed, new, written, CHUNK_EVENTS if known else FILL_EVENTS)
        except Exception:
            # The relist that follows will find no difference in what was written.
            if self._told and not self._stop.is_set():
                self._tell([[each for each in news if written.get(_key_of(each))]])
            raise
        if refused:
            news = Pieces(each for each in news if written.get(_key_of(each)) is not False)
        self._tell(news.drained())
        self._told = True
        self._whole = new.whole and not refused and new.resource_version not in ("", "0")
        if self._whole:
            self._note_source(self._source)
        deque(paced(changed.drained()), maxlen=0)
        written.clear()

    def _news(
        self, piece: list[Entry], changed: Pieces[Delta], *, initial: bool, known: bool
    ) -> list[Notification | Again]:
        """Return what handlers are to be told of a piece of a list; add to `changed` what differs.

        In its place: containers that come while as many go pile up as young ones, since the garbage
        collector counts the difference, and are then gone through at once.
        """
        news = cast(list[Notification | Again], piece)
        olds: dict[str, Object] = {}
        if known:
            for keys in self._going_on(_chunks(_keys_of_objects(piece), LOOKED_UP)):
                olds |= self.store.get_by_keys(keys)
        for place, (key, obj) in enumerate(self._going_on(piece)):
            if isinstance(obj, str):
                continue
            old = olds.get(key)
            if old is not None and _equal(old, obj):
                obj = old
            else:
                changed.append(Delta(DeltaType.UPDATED, key, obj))
            if old is None or not self._told:
                news[place] = Added(obj, initial)
            elif old is obj:
                news[place] = (key, resource_version(obj))
            else:
                news[place] = _updated(old, obj)
        return news

    def _compared(self, listed: Pieces[Entry]) -> tuple[bool, Pieces[str]]:
        """Return whether the store holds anything, and the keys of what a list lacks."""
        present: Spread[None] = Spread()
        for key, _ in self._going_on(listed):
            present[key] = None
        known = False
        absent: Pieces[str] = Pieces()
        for keys in self._going_on(self.store.walk_keys()):
            known = True
            absent.extend(key for key in keys if key not in present)
        present.clear()
        return known, absent

    def _write(
        self, changed: Pieces[Delta], new: Replacement, written: Spread[bool], size: int
    ) -> int:
        """Write what a list changes, and note in `written` what is; return how many are not.

        In chunks, so that readers need not wait. Until the last one the store stands where it did
        and bears no source, so that a process that dies in between lists again.
        """
        if changed or not new.whole or self._noted != self._source:
            self._note_source("")
        refused = 0
        here = _bookmark(self.store.last_store_sync_resource_version())
        for chunk in self._going_on(_chunks(changed, size)):
            events = [_event(delta) for delta in chunk]
            try:
                self.store.apply([*events, here])
            except ValueError:
                for delta, event in zip(chunk, events, strict=True):
                    done = self._apply_one(delta.key, event, here)
                    written[delta.key] = done
                    refused += not done
            else:
                for delta in chunk:
                    written[delta.key] = True
        self.store.bookmark(new.resource_version)
        return refused

    def _going_on(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items and give way to other threads between them.

        Raises:
            _StoppedError: the informer was stopped. What is left undone, the next life will do.
        """
        for item in paced(items):
            if self._stop.is_set():
                raise _StoppedError
            yield item

    def _share(self, queue: DeltaQueue, objs: Objects) -> list[Entry]:
        """Give up objects that the store has, so that a relist keeps no second copy.

        That it has them holds until the list is applied: nothing else comes before.
        """
        listed = entries(objs)
        if not self._told or not queue.idle():
            return listed  # the store is about to change; it may be locked for long
        stored = self.store.get_by_keys([key for key, _ in listed])
        return [
            (key, resource_version(obj))
            if key in stored and _equal(stored[key], obj)
            else (key, obj)
            for (key, _), obj in zip(listed, objs, strict=True)
        ]

    def _again(self) -> Iterator[list[Again]]:
        """Yield all objects of the store as unchanged, some at a time."""
        for keys in self._going_on(self.store.walk_keys()):
            for some in self._going_on(_chunks(keys, LOOKED_UP)):
                stored = self.store.get_by_keys(some)
                yield [(key, resource_version(obj)) for key, obj in stored.items()]

    def _tell(self, pieces: Iterable[Sequence[Notification | Again]]) -> None:
        registrations = [(each, each.resyncing) for each in self._handlers()]
        for piece in self._going_on(pieces):
            changes: list[Notification | Again] | None = None
            for registration, resyncing in registrations:
                if resyncing:
                    registration.notify(piece)
                else:
                    if changes is None:
                        changes = [each for each in piece if not _is_sync(each)]
                    registration.notify(changes)

    def _handlers(self) -> list[Registration]:
        with self._state:
            return list(self._registrations)


def _keys_of_objects(piece: Iterable[Entry]) -> Iterator[str]:
    return (key for key, obj in piece if not isinstance(obj, str))


def _key_of(notification: Notification | Again) -> str:
    if is_again(notification):
        return cast(Again, notification)[0]
    return deletion_handling_meta_namespace_key_func(cast(Notification, notification).obj)


def _is_sync(notification: Notification | Again) -> bool:
    return is_again(notification) or getattr(notification, "sync", False)


_EVENT_TYPES = {
    DeltaType.ADDED: "ADDED",
    DeltaType.UPDATED: "MODIFIED",
    DeltaType.DELETED: "DELETED",
}


def _event(delta: Delta) -> Event:
    return {"type": _EVENT_TYPES[delta.type], "object": delta.object}


def _bookmark(rv: str) -> Event:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": rv}}}


def _source(list_watch: ListWatch, transform: TransformFunc | None) -> str:
    """Return the name of what an informer stores, "" if two that differ might have the same."""
    source: str = getattr(list_watch, "source", "")
    if not source or transform is None:
        return source
    name: str = getattr(transform, "__qualname__", "")
    if not name or "<" in name:  # a lambda or a function in a function is not told from others
        return ""
    return f"{source} {transform.__module__}.{name}"


def _updated(old: Object, new: Object) -> Updated:
    return Updated(old, new, sync=resource_version(old) == resource_version(new))


def _equal(old: Object, new: Object) -> bool:
    return old is new or (resource_version(old) == resource_version(new) and old == new)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _joined(thread: threading.Thread, deadline: float) -> bool:
    thread.join(max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()
