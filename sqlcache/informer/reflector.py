"""The reflector: one list and one watch at a time, forever, whose results go into a queue.

Flow of one round (`_list_and_watch`): a streaming list, or a paged list; then watches, one after
the other, until one ends in a way that needs a new list. Between rounds it waits for the back-off.

A store that still has what an earlier informer kept in it needs no list: the first round then
begins with a short watch from the store's resourceVersion (`_resume`).

Promises
- It asks no more often than the back-off allows: a round that ends, for whatever reason, is
  followed by a delay; so is a watch that is refused or answered with 429.
- A list never goes back in time behind what was seen, unless the server has forgotten that.
- Everything blocking ends soon after the stop signal.

Differences from client-go: Retry-After is honoured here, not in the transport; a streaming list
that is cut short again and again waits for the back-off from the fifth time on; an object is
transformed once even by a streaming list; an object of a relist that equals the stored one is
given up at once, so that a relist holds only what changed.

Elsewhere: what becomes of the results (informer.deltas, informer.shared), HTTP (sqlcache.client).
Source: client-go tools/cache reflector.go; tools/pager pager.go.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, NamedTuple, Protocol

from sqlcache.client.api import Event, ListWatch, Page, Watch
from sqlcache.clock import Clock, StopSignal, paced
from sqlcache.errors import (
    ApiDecodeError,
    ApiStatusError,
    ObjectError,
    ReflectorError,
    SqlcacheError,
    VeryShortWatchError,
    shown,
)
from sqlcache.informer._metrics import ReflectorMetrics
from sqlcache.informer.backoff import Backoff
from sqlcache.informer.deltas import Entry, entries
from sqlcache.informer.pieces import Pieces, Spread
from sqlcache.objects import Object, Objects, meta_namespace_key_func, metadata, resource_version

_LOG = logging.getLogger(__name__)

PAGE_OBJECTS = 500  # client-go pager's defaultPageSize
SHORTEST_WATCH_S = 300.0  # asked of the server; random up to twice that, so that they spread
LONGEST_WATCH_S = 600.0
VERY_SHORT_S = 1.0  # a watch that ends sooner and empty is taken for a fault
RESUMED_WATCH_S = 3  # a bookmark, which confirms it, comes 2 s before the end of a watch
SHARED_AT_ONCE = 50  # objects; fewer than the garbage collector lets pass before it looks at them
STREAMS_AT_ONCE = 5  # streaming lists cut short or refused with 410, tried again without delay
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_TOO_LARGE = "Too large resource version"


class ObjectType(NamedTuple):
    """What objects are expected to be; "" is not compared."""

    api_version: str
    kind: str


class Sink(Protocol):
    """Where a reflector puts what it learns: a `DeltaQueue`."""

    def transformed(self, obj: Object) -> Object:
        """Return what is stored of an object."""

    def add(self, obj: Object) -> None:
        """Take an object that is new."""

    def update(self, obj: Object) -> None:
        """Take an object that changed."""

    def delete(self, obj: Object) -> None:
        """Take the last state of an object that is gone."""

    def replace(self, listed: Pieces[Entry], resource_version: str, *, whole: bool) -> None:
        """Take a list of transformed objects, and whether it has all."""

    def resume(self, resource_version: str) -> None:
        """Take note that events after this resourceVersion follow, and no list."""

    def lost(self) -> None:
        """Take note that an object could not be taken."""

    def resync(self) -> None:
        """Replay the store."""

    def bookmark(self, resource_version: str) -> None:
        """Take the resourceVersion reached."""


class _Stopped(Exception):  # noqa: N818 - not an error
    """The stop signal was raised."""


class _Stream:
    """An open watch with its one iterator, since a streaming list is read in two parts."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.events: Iterator[Event] = iter(watch)

    def close(self) -> None:
        try:
            self._watch.close()
        except Exception:  # noqa: BLE001 - somebody else's code, and given up anyway
            _LOG.debug("closing a watch failed", exc_info=True)

    def finish(self) -> None:
        """Close it in the thread that read it: what a generator holds is released at once."""
        self.close()
        if isinstance(self.events, Generator):
            self.events.close()


Share = Callable[[Objects], list[Entry]]
"""Takes objects of a list, gives up those that the store has; raises as `entries` does."""


class Reflector:
    """See the module. `run` is called once, in a thread of its own."""

    def __init__(
        self,
        list_watch: ListWatch,
        sink: Sink,
        *,
        clock: Clock,
        stop: StopSignal,
        name: str,
        description: str = "objects",
        expected: ObjectType | None = None,
        use_watch_list: bool = True,
        page_objects: int | None = None,
        resume_from: str = "",
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        share: Share = entries,
        resyncs: Callable[[StopSignal], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        """Make a reflector.

        Args:
            list_watch: the resource.
            sink: takes the results.
            clock: tells the time.
            stop: ends `run`.
            name: for logs.
            description: the type in messages.
            expected: events with objects of another type are skipped.
            use_watch_list: try a streaming list first.
            page_objects: page size of all lists; None pages only where a server would have to
                read from etcd anyway.
            resume_from: the resourceVersion that the sink's store stands at, to go on from there;
                "" lists.
            backoff: delays between rounds.
            rng: spreads the watch timeouts.
            share: gives up objects that the store has; see `Share`.
            resyncs: runs beside the watches of a round, in a thread of its own, until its signal.
            on_error: told why a round ended, as client-go's WatchErrorHandler; default: log it.
            metrics: told of lists and watches.
        """
        self._list_watch, self._sink, self._clock, self._stop = list_watch, sink, clock, stop
        self._name, self._description, self._expected = name, description, expected
        self._use_watch_list = use_watch_list and getattr(list_watch, "supports_watch_list", True)
        self._page_objects = page_objects
        self._backoff = backoff or Backoff(clock)
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._share, self._resyncs = share, resyncs
        self._on_error = on_error or self._log_error
        self._metrics = metrics
        if metrics:
            metrics.follow(self.last_sync_resource_version)
        self._rv = resume_from  # what was seen last
        self._unconfirmed = bool(resume_from)  # nobody knows yet whether the server knows it
        self._rv_unavailable = False  # the server answered 410 or "too large" to it
        self._paginated = False  # the first list came in pages, so later ones will as well
        self._relist_wanted = False
        self._watch: _Stream | None = None

    def last_sync_resource_version(self) -> str:
        """Return the resourceVersion seen last, "" before the first list of an empty store."""
        return self._rv

    def run(self) -> None:
        """List and watch until the stop signal."""
        while not self._stop.is_set():
            delay = 0.0
            try:
                self._list_and_watch()
            except _Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - whatever it is, a new round may do
                if self._stop.is_set():
                    return
                delay = (
                    getattr(error, "retry_after", None)
                    or getattr(error.__cause__, "retry_after", None)
                    or 0.0
                )
                self._tell(error if isinstance(error, Exception) else _exited(error))
            if self._stop.sleep(max(delay, self._backoff.step())):
                return

    def relist(self) -> None:
        """Have the current round ended, because the sink lost something. From any thread."""
        self._relist_wanted = True
        self._unconfirmed = False
        watch = self._watch
        if watch is not None:
            watch.close()

    # One round

    def _list_and_watch(self) -> None:
        self._relist_wanted = False
        if self._unconfirmed and self._resume():
            return
        watch: _Stream | None = None
        if self._use_watch_list:
            try:
                watch = self._stream_list()
            except (_Stopped, ReflectorError):
                raise
            except Exception as error:  # noqa: BLE001 - as client-go: any error
                self._check_stop()
                _LOG.debug("%s: no streaming list, so a plain one: %s", self._name, error)
        if watch is None:
            self._list()
        self._watch_with_resync(watch)

    def _watch_with_resync(self, watch: _Stream | None) -> None:
        if self._resyncs is None:
            self._watch_on(watch)
            return
        ended = StopSignal(self._clock)
        forget = self._stop.call(ended.set)
        thread = threading.Thread(
            target=self._resyncs, args=(ended,), name=f"{self._name}-resync", daemon=True
        )
        thread.start()
        try:
            self._watch_on(watch)
        finally:
            forget()
            ended.set()
            thread.join()

    def _watch_on(self, watch: _Stream | None) -> None:
        """Watch until a list is needed."""
        while True:
            started = self._clock.now()
            from_start = True
            if watch is None:
                from_start = self._rv not in ("", "0")
                opened = self._open(self._rv, streaming=False, short=self._unconfirmed)
                if opened is None:
                    continue
                watch = opened
            events = _Events(self, from_start=from_start)
            try:
                self._follow(watch, started, events)
                quiet = self._unconfirmed and not (events.broke_off or self._relist_wanted)
                if quiet and not self._confirm_quiet():
                    return
            except ApiStatusError as error:
                if is_too_many_requests(error):
                    self._wait(error)
                else:
                    self._note_end(error)
                    return
            except (VeryShortWatchError, ApiDecodeError) as error:
                self._note_end(error)
                return
            if self._relist_wanted:
                return
            watch = None

    def _open(self, rv: str, *, streaming: bool, short: bool = False) -> _Stream | None:
        """Open a watch; None after waiting, when the server was not ready for it."""
        self._check_stop()
        spread = self._rng.random() * (LONGEST_WATCH_S - SHORTEST_WATCH_S)
        try:
            watch = self._list_watch.watch(
                resource_version=rv,
                resource_version_match="NotOlderThan" if streaming else "",
                send_initial_events=streaming,
                allow_watch_bookmarks=True,
                timeout_seconds=RESUMED_WATCH_S if short else int(SHORTEST_WATCH_S + spread),
                stop=self._stop,
            )
        except Exception as error:
            self._check_stop()
            if not is_retriable(error):
                raise
            _LOG.debug("%s: watch refused, backing off: %s", self._name, error)
            self._wait(error)
            return None
        if self._metrics:
            self._metrics.watches.inc()
        return _Stream(watch)

    def _wait(self, error: Exception) -> None:
        at_least = getattr(error, "retry_after", None) or 0.0
        if self._stop.sleep(max(at_least, self._backoff.step())):
            raise _Stopped

    def _follow(self, watch: _Stream, started: float, events: _Events) -> bool:
        """Take the events of a watch until it ends or the list in it is complete.

        Returns:
            Whether the list is complete; only then the watch is left open.

        Raises:
            ApiStatusError: the server ended it with an error.
            ApiDecodeError: an event cannot be read.
            VeryShortWatchError: it ended too soon.
        """
        forget = self._stop.call(watch.close)
        self._watch = watch
        complete = False
        try:
            complete = not self._relist_wanted and self._take_all(watch, events)
        finally:
            self._watch = None
            forget()
            if not complete:
                watch.finish()
                if self._metrics:
                    self._metrics.watched(self._clock.now() - started, events.count)
        self._check_stop()
        if complete or self._relist_wanted:
            return complete
        if not events.count and self._clock.now() - started < VERY_SHORT_S:
            if self._metrics:
                self._metrics.short_watches.inc()
            raise VeryShortWatchError(self._name)
        return False

    def _take_all(self, watch: _Stream, events: _Events) -> bool:
        try:
            for event in paced(watch.events):
                self._check_stop()
                if events.take(event):
                    return True
        except ApiStatusError:
            raise
        except OSError as error:
            self._check_stop()
            _LOG.info("%s: the watch broke off: %s", self._name, error)
            events.broke_off = True
        return False

    # Going on from what the store has

    def _resume(self) -> bool:
        """Watch on from where the store stands; return False if a list is needed first.

        The API server answers any watch with 200. To a resourceVersion that it has forgotten, the
        first event is an ERROR 410. To one that it has yet to reach it is silent: the store may be
        of a cluster that was set up anew. It sends only what is newer than the resourceVersion
        asked for, bookmarks included, so the first event of any kind confirms it; and the first
        watch is a short one, for the sake of the bookmark before its end.
        """
        try:
            self._watch_with_resync(None)
        except ApiStatusError as error:
            if not self._unconfirmed:
                raise
            self._note_end(error)
        if not self._unconfirmed:
            return True
        self._unconfirmed = False
        _LOG.info("%s: cannot resume from %s, listing %s", self._name, self._rv, self._description)
        return False

    def _confirm_quiet(self) -> bool:
        """Tell a resource that does not change from a resourceVersion of the future.

        A list of one object at exactly this resourceVersion is refused with 504 if it is yet to
        come. That it may be too old for a list (410) does not matter: for the watch it was not.
        """
        try:
            self._page(rv=self._rv, limit=1, token="")
        except ApiStatusError as error:
            if is_too_large(error):
                self._rv_unavailable = True
                return False
            if not is_expired(error):
                raise
        self._confirm()
        return True

    def _confirm(self) -> None:
        self._unconfirmed = False
        self._sink.resume(self._rv)

    # The streaming list

    def _stream_list(self) -> _Stream:
        """Return a watch whose list is complete and queued.

        Raises:
            Exception: it cannot be had that way; a plain list may.
        """
        cut_short = 0
        while True:
            started = self._list_begins()
            contents = _Contents(self)
            try:
                watch = self._open("" if self._rv_unavailable else self._rv, streaming=True)
                if watch is None:
                    continue
                complete = self._follow(watch, started, contents)
            except ApiStatusError as error:
                if is_too_many_requests(error):
                    self._wait(error)
                    continue
                if not (is_expired(error) or is_too_large(error)):
                    raise
                self._rv_unavailable = True
            else:
                if complete:
                    break
            cut_short += 1
            if cut_short >= STREAMS_AT_ONCE and self._stop.sleep(self._backoff.step()):
                raise _Stopped
        try:
            listed = contents.listed()
        except ObjectError:
            watch.finish()
            raise
        self._sync(listed, contents.rv, started, whole=contents.whole)
        return watch

    # The plain list

    def _list(self) -> None:
        started = self._list_begins()
        rv = "" if self._rv_unavailable else self._rv or "0"
        limit = self._page_size(rv)
        try:
            try:
                found = self._pages(rv, limit)
            except ApiStatusError as error:
                if not (is_expired(error) or is_too_large(error)):
                    raise
                self._rv_unavailable = True
                self._check_stop()
                found = self._pages("", limit)
        except (ApiStatusError, OSError, SqlcacheError) as error:
            self._check_stop()
            raise ReflectorError(f"failed to list {self._description}: {error}") from error
        self._check_stop()
        if rv == "0" and found.paginated:
            self._paginated = True
        if found.refused is not None:
            raise _unsynced(found.refused)
        self._sync(found.listed, found.rv, started, whole=True)

    def _list_begins(self) -> float:
        if self._metrics:
            self._metrics.lists.inc()
        return self._clock.now()

    def _page_size(self, rv: str) -> int:
        if self._page_objects is not None:
            return self._page_objects
        if self._paginated or rv in ("", "0"):
            return PAGE_OBJECTS
        return 0  # the API server answers from its memory only if it may answer in one go

    def _pages(self, rv: str, limit: int) -> _Listed:
        """Return a whole list, page by page; in one go if a continue token expires."""
        listed = _Listed(self)
        token = ""
        while True:
            self._check_stop()
            try:
                page = self._page(rv="" if token else rv, limit=limit, token=token)
            except ApiStatusError as error:
                if not token or error.reason != "Expired":
                    raise
                self._check_stop()
                full = _Listed(self)
                full.take(self._page(rv=rv, limit=0, token=""))
                full.paginated = True
                return full
            token = listed.take(page)
            if not token:
                return listed
            listed.paginated = True

    def _page(self, *, rv: str, limit: int, token: str) -> Page:
        return self._list_watch.list_page(
            resource_version=rv, limit=limit, continue_token=token, stop=self._stop
        )

    def _sync(self, listed: Pieces[Entry], rv: str, started: float, *, whole: bool) -> None:
        if self._metrics:
            self._metrics.listed(self._clock.now() - started, len(listed))
        self._rv_unavailable = False
        self._sink.replace(listed, rv, whole=whole)
        self._rv = rv

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _usable(self, event: Any) -> tuple[Any, Object] | None:
        """Return type and object of an event; None, logged, if it is of no use."""
        kind = event.get("type") if isinstance(event, dict) else None
        obj = event.get("object") if isinstance(event, dict) else None
        if kind == "ERROR":
            raise ApiStatusError.from_status(obj)
        if not isinstance(obj, dict):
            _LOG.error("%s: unable to understand watch event: %s", self._name, shown(event))
        elif self._expected and not _is(obj, self._expected):
            _LOG.error(
                "%s: unexpected watch event object type: %s %s instead of %s %s",
                self._name,
                obj.get("apiVersion"),
                obj.get("kind"),
                *self._expected,
            )
        elif _is_table(obj):
            _LOG.error("%s: tables are not supported in a watch", self._name)
        elif not isinstance(obj.get("metadata"), dict):
            _LOG.error("%s: unable to understand watch event: %s", self._name, shown(event))
        else:
            return kind, obj
        return None

    def _tell(self, error: Exception) -> None:
        try:
            self._on_error(error)
        except Exception:  # noqa: BLE001 - the error handler is somebody else's code
            _LOG.exception("%s: the error handler failed", self._name)

    def _log_error(self, error: Exception) -> None:
        if isinstance(error, ApiStatusError) and is_expired(error):
            _LOG.info("%s: watch closed: %s", self._name, error)
        elif isinstance(error, SqlcacheError | OSError):
            _LOG.error("%s: failed to watch %s: %s", self._name, self._description, error)
        else:
            _LOG.error("%s: failed to watch", self._name, exc_info=error)

    def _note_end(self, error: Exception) -> None:
        expired = isinstance(error, ApiStatusError) and is_expired(error)
        if self._unconfirmed and isinstance(error, ApiStatusError):
            # A list not older than the store will do, unless its resourceVersion is none here.
            self._rv_unavailable = not expired
        level = logging.DEBUG if expired else logging.WARNING
        _LOG.log(level, "%s: watch of %s ended: %s", self._name, self._description, error)


class _Events:
    """Passes the events of a watch on."""

    def __init__(self, reflector: Reflector, *, from_start: bool) -> None:
        self._reflector, self._sink = reflector, reflector._sink
        # A watch from "" or "0" begins with ADDED events in no order: their RVs mean nothing.
        self._past_initial = from_start
        self.count = 0
        self.broke_off = False  # the connection did, before the server ended the watch

    def take(self, event: Any) -> bool:
        usable = self._reflector._usable(event)
        if usable is None:
            return False
        kind, obj = usable
        rv = resource_version(obj)
        if self._reflector._unconfirmed and rv != self._reflector._rv:
            self._reflector._confirm()  # unlike a bookmark of where we are, which is no news
        if kind in ("MODIFIED", "DELETED", "BOOKMARK"):
            self._past_initial = True
        try:
            self._pass_on(kind, obj, rv)
        except Exception:  # noqa: BLE001 - the transform is somebody else's code
            name = self._reflector._name
            _LOG.exception("%s: %s event of %s is lost", name, kind, _key_or_text(obj))
            self._lost()
        if self._past_initial:
            self._reached(rv)
        self.count += 1
        return False

    def _reached(self, rv: str) -> None:
        self._reflector._rv = rv

    def _lost(self) -> None:
        self._sink.lost()

    def _pass_on(self, kind: Any, obj: Object, rv: str) -> None:
        if kind == "ADDED":
            self._sink.add(obj)
        elif kind == "MODIFIED":
            self._sink.update(obj)
        elif kind == "DELETED":
            self._sink.delete(obj)
        elif kind == "BOOKMARK":
            self._sink.bookmark(rv)
        else:
            _LOG.error("%s: unknown watch event %s", self._reflector._name, shown(kind))


class _Contents(_Events):
    """Collects what a streaming list brings, until the mark of its end."""

    def __init__(self, reflector: Reflector) -> None:
        super().__init__(reflector, from_start=False)
        self._listed: Pieces[Entry] = Pieces()
        self._places: Spread[int] = Spread()  # in the above, by key
        self._length = 0  # of the above
        self._gone: set[int] = set()  # places in the above
        self._unshared: dict[str, Object] = {}
        self.rv = ""
        self.whole = True
        self._complete = False

    def listed(self) -> Pieces[Entry]:
        self._share()
        self._places.clear()
        if not self._gone:
            return self._listed
        listed = enumerate(paced(self._listed))
        return Pieces(entry for place, entry in listed if place not in self._gone)

    def take(self, event: Any) -> bool:
        super().take(event)
        return self._complete

    def _reached(self, rv: str) -> None:
        self.rv = rv

    def _lost(self) -> None:
        self.whole = False

    def _pass_on(self, kind: Any, obj: Object, rv: str) -> None:
        if kind in ("ADDED", "MODIFIED"):
            transformed = self._sink.transformed(obj)
            self._put(meta_namespace_key_func(transformed), transformed)
        elif kind == "DELETED":
            self._put(meta_namespace_key_func(obj), None)
        elif kind == "BOOKMARK":
            annotations = metadata(obj).get("annotations")
            if isinstance(annotations, dict) and annotations.get(INITIAL_EVENTS_END) == "true":
                self._complete = True
        else:
            super()._pass_on(kind, obj, rv)

    def _put(self, key: str, obj: Object | None) -> None:
        if obj is None:
            place = self._places.pop(key)
            if place is not None:
                self._gone.add(place)
            self._unshared.pop(key, None)
            return
        self._unshared[key] = obj
        if len(self._unshared) >= SHARED_AT_ONCE:
            self._share()

    def _share(self) -> None:
        shared = self._reflector._share(list(self._unshared.values()))
        for key, entry in zip(self._unshared, shared, strict=True):
            place = self._places.get(key)
            if place is not None:
                self._listed.put(place, entry)
                continue
            self._places[key] = self._length
            self._length += 1
            self._listed.append(entry)
        self._unshared.clear()


class _Listed:
    """Collects the pages of a list."""

    def __init__(self, reflector: Reflector) -> None:
        self._reflector = reflector
        self._pages = 0
        self.listed: Pieces[Entry] = Pieces()
        self.rv = ""
        self.paginated = False
        self.refused: Exception | None = None  # why the whole list fails

    def take(self, page: Any) -> str:
        """Take a page and return the token of the next, "" if it is the last."""
        if not isinstance(page, dict) or not isinstance(page.get("metadata"), dict):
            raise ApiDecodeError(f"unable to understand list result {shown(page)}")
        if _is_table(page):
            raise ApiDecodeError(f"unsupported list of tables for {self._reflector._description}")
        items = page.get("items") or []
        if not isinstance(items, list | Iterator):
            raise ApiDecodeError(f"unable to understand list items {shown(items)}")
        if not self._pages:
            self.rv = str(page["metadata"].get("resourceVersion") or "")
        self._pages += 1
        api_version, kind = page.get("apiVersion"), str(page.get("kind") or "")
        item_kind = kind.removesuffix("List") if kind != "List" else ""
        unshared: Objects = []
        with closing(_let_go(items)) as remaining:
            for item in paced(remaining):
                if item_kind and isinstance(item, dict):
                    # The items of a typed list do not repeat it, watch events do.
                    item.setdefault("apiVersion", api_version)
                    item.setdefault("kind", item_kind)
                unshared.append(self._transformed(item))
                if len(unshared) >= SHARED_AT_ONCE:
                    self._share(unshared)
                    unshared = []
        self._share(unshared)
        return str(page["metadata"].get("continue") or "")

    def _share(self, objs: Objects) -> None:
        self._reflector._check_stop()
        if self.refused is None:
            try:
                self.listed.extend(self._reflector._share(objs))
            except ObjectError as error:
                self.refused = error

    def _transformed(self, item: Any) -> Any:
        try:
            return self._reflector._sink.transformed(item)
        except Exception as error:  # noqa: BLE001 - the transform is somebody else's code
            if self.refused is None:
                self.refused = error
            return None


def _let_go(items: list[Any] | Iterator[Any]) -> Generator[Any, None, None]:
    """Yield items, each of a list only once it is no longer in it."""
    if isinstance(items, Iterator):
        yield from items
        return
    for position, item in enumerate(items):
        items[position] = None
        yield item


def is_expired(error: ApiStatusError) -> bool:
    """Return whether the server has forgotten the resourceVersion or continue token."""
    return error.reason in ("Expired", "Gone") or (not error.reason and error.code == 410)


def is_too_many_requests(error: Exception) -> bool:
    """Return whether the server asked for patience."""
    return isinstance(error, ApiStatusError) and (
        error.reason == "TooManyRequests" or error.code == 429
    )


def is_retriable(error: Exception) -> bool:
    """Return whether a watch can simply be opened again later, with nothing missed."""
    return isinstance(error, ConnectionRefusedError) or is_too_many_requests(error)


def is_too_large(error: ApiStatusError) -> bool:
    """Return whether the server has not yet reached the resourceVersion asked for.

    Source: client-go reflector.go, isTooLargeResourceVersionError; servers up to 1.18.5 say it in
    words only.
    """
    causes = error.details.get("causes")
    causes = [cause for cause in causes if isinstance(cause, dict)] if causes else []
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        return True
    timeout = error.reason == "Timeout" or (not error.reason and error.code == 504)
    if not timeout:
        return False
    return any(cause.get("message") == _TOO_LARGE for cause in causes) or (
        _TOO_LARGE in error.message
    )


def _exited(error: BaseException) -> ReflectorError:
    failure = ReflectorError(f"{type(error).__name__} instead of an answer")
    failure.__cause__ = error
    return failure


def _unsynced(error: Exception) -> ReflectorError:
    failure = ReflectorError(f"unable to sync list result: {error}")
    failure.__cause__ = error
    return failure


def _is(obj: Object, expected: ObjectType) -> bool:
    return (not expected.api_version or obj.get("apiVersion") == expected.api_version) and (
        not expected.kind or obj.get("kind") == expected.kind
    )


def _is_table(obj: Object) -> bool:
    group = str(obj.get("apiVersion") or "")
    return obj.get("kind") == "Table" and group.startswith("meta.k8s.io/")


def _key_or_text(obj: Object) -> str:
    try:
        return meta_namespace_key_func(obj)
    except ObjectError:
        return shown(obj)
