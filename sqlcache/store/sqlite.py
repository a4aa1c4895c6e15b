"""`sqlite` backend: objects and their labels as indexed rows, in memory or in a file.

Flow: a write is worked out (store._base), planned as a few set-based statements (writer) and
committed; then the shelf of objects follows. A selector becomes ids (selection), and the shelf
turns ids into objects.

Promises
- One writer at a time. In memory a read waits for the statements of a write; in a file it never
  does, and sees the last commit.
- A read is fetched in full before it returns, within one state of the database.
- What is true is in the tables: several processes may use one file.

Elsewhere: connections (store._sql.engine), schema versions (store._sql.upgrade).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Literal

import orjson

from sqlcache.errors import BackendError, NoSelectorsError
from sqlcache.objects import Indexers, Object, Objects
from sqlcache.selectors import NOTHING, Requirement, Selector
from sqlcache.store._base import (
    KEYS_AT_ONCE,
    BaseStore,
    Change,
    IndexValues,
    Selectors,
    index_values,
    unsound,
)
from sqlcache.store._sql import selection, statistics
from sqlcache.store._sql.compression import Compressor, Training, library
from sqlcache.store._sql.counted import Query, Statement, reader, to_json
from sqlcache.store._sql.counted_rows import CountedRows
from sqlcache.store._sql.dictionaries import Dictionaries
from sqlcache.store._sql.engine import Database, FileDatabase, MemoryDatabase
from sqlcache.store._sql.label_index import LabelIndex
from sqlcache.store._sql.label_keys import LabelKeys
from sqlcache.store._sql.object_rows import Row
from sqlcache.store._sql.packed import OBJECT_BYTES, PackedShelf, batched, keys_after
from sqlcache.store._sql.selecting import FiledSelectors
from sqlcache.store._sql.shelf import LiveShelf, Shelf
from sqlcache.store._sql.views import MEMBER_BYTES, HotViews, Write
from sqlcache.store._sql.writer import Plan, Writer, add_postings, resource_id, run
from sqlcache.store.api import Explanation, Keys, StoreSize, StoreStats
from sqlcache.store.labels import LabelPolicy

# A full garbage collection visits every decoded object: some 35 us for a pod of 5 KB, beside some
# 20 ms for the interpreter and its modules. With this many, its pause stays below 50 ms.
DEFAULT_HOT_OBJECTS = 500
# 8 bytes each, where objects are kept parsed anyway: 8 MB.
DEFAULT_HOT_MEMBERS = 1_000_000
_OBJECTS_PER_PLAN = 2_000  # these two bound what one statement takes as its parameter
_BYTES_PER_PLAN = 64 * 2**20
_POSTINGS_PER_RUN = 500_000  # the larger the sorted runs of a replace, the fuller the pages

_RESOURCE = "SELECT id FROM resource WHERE name = ?"
_RESOURCES = "SELECT json_group_array(name) FROM (SELECT name FROM resource ORDER BY name)"
_VERSION = "SELECT resource_version FROM resource WHERE name = ?"
_SET_VERSIONS = (
    "UPDATE resource SET resource_version = ifnull(?, resource_version), version = version + ?"
    " WHERE name = ? RETURNING version"
)
_SOURCE = "SELECT source FROM resource WHERE name = ?"
_SET_SOURCE = "UPDATE resource SET source = ? WHERE name = ?"
_HAS_INDEXES = "SELECT EXISTS (SELECT 1 FROM scope WHERE resource_id = ? AND kind = 1)"
_INDEX = (
    " FROM label_key k CROSS JOIN scope s CROSS JOIN label l"
    " WHERE k.name = ? AND s.resource_id = ? AND s.kind = 1 AND s.namespace = ''"
    " AND l.scope_id = s.id AND l.key_id = k.id"
)
_INDEX_VALUES = f"SELECT json_group_array(l.value) {_INDEX}"
_INDEX_IDS = (
    "SELECT json_group_array(DISTINCT p.object_id)"
    + _INDEX.replace(" WHERE", " CROSS JOIN posting p WHERE")
    + " AND l.value IN (SELECT value FROM json_each(?)) AND p.label_id = l.id"
)


class SqliteStore(BaseStore):
    """Objects and labels in SQLite."""

    backend = "sqlite"
    training = Training()  # of dictionaries for compressed objects

    def __init__(
        self,
        path: str | None = None,
        resource: str = "pods",
        *,
        objects: Literal["live", "packed"] | None = None,
        hot_objects: int = DEFAULT_HOT_OBJECTS,
        hot_members: int | None = None,
        compress: bool | None = None,
        labels: LabelPolicy | None = None,
        **options: Any,
    ) -> None:
        """Open a store.

        Args:
            path: of the file; None keeps the database in memory.
            resource: plural resource name.
            objects: "live" or "packed"; default "live" in memory, always "packed" in a file.
            hot_objects: how many decoded objects a packed store keeps at most, and how many times
                8 KiB of JSON they were decoded from.
            hot_members: how many members the hot views have at most, 0 for no views; default
                1,000,000 where objects are live, else `hot_objects`. Packed ones are bounded by
                8 KiB of JSON for each as well.
            compress: whether to compress packed objects; default: if there is a library.
            labels: which label keys are indexed; default: as the file has it, all in a new one.
            options: see `sqlcache.open_store`.

        Raises:
            BackendError: an option that does not fit.
            DatabaseError: the file cannot be opened; see its subclasses.
            CompressedError: its objects are compressed, and there is no library.
        """
        if objects not in (None, "live", "packed"):
            raise BackendError(f"objects is 'live' or 'packed', not {objects!r}")
        if path is not None and objects == "live":
            raise BackendError("a file keeps its objects packed: objects='live' is for memory")
        if hot_objects < 0:
            raise BackendError(f"hot_objects is 0 or more, not {hot_objects}")
        if hot_members is not None and hot_members < 0:
            raise BackendError(f"hot_members is 0 or more, not {hot_members}")
        super().__init__(resource, **options)
        self._live = path is None and objects != "packed"
        self._shelf: Shelf
        if self._live:
            if compress:
                raise BackendError("objects that stay parsed are not compressed: objects='packed'")
            self._shelf = LiveShelf()
        else:
            dictionaries = Dictionaries(path or ":memory:", self._compressor(compress))
            self._shelf = PackedShelf(hot_objects, dictionaries, versioned=path is not None)
        self._memory = MemoryDatabase(derived=self._live) if path is None else None
        self._memory_version = ""  # in memory the resourceVersion needs no statement
        if hot_members is None:
            hot_members = DEFAULT_HOT_MEMBERS if self._live else hot_objects
        member_bytes = MEMBER_BYTES if self._live else OBJECT_BYTES
        self._views = HotViews(hot_members, hot_members * member_bytes, self._shelf.members)
        self._filed: FiledSelectors | None = None
        if self._selector_func is not None:
            self._filed = FiledSelectors(self._shelf, self._selector_func, shared=path is not None)
        self._db: Database = self._memory or FileDatabase(path or "")
        self._writer = Writer(self._shelf, lambda: self._indexers)
        self._known_rows = CountedRows()  # in memory, where nobody else writes
        self._resource_id: int | None = self._db.one(_RESOURCE, (resource,))
        self._labels = LabelIndex(
            self._db, self._shelf, self._writer, self._write_lock, labels, shared=path is not None
        )
        with self._reading() as (query, number):
            self._labels.snapshot(query, number)
        self._ready_to_write = False
        try:
            if self._resource_id is not None:
                self._shelf.start(self._db.one, self._resource_id)
            if self._indexers:
                with self._write_lock.turn():
                    self._prepare_writes()
        except BaseException:
            self._db.close()
            raise

    def _compressor(self, compress: bool | None) -> Compressor | None:
        used = None if compress is False else library()
        if used is None and compress:
            raise BackendError("compress=True needs a library: pip install 'sqlcache[zstd]'")
        return None if used is None else Compressor(used, self.training)

    def drop_hot_objects(self) -> None:
        """Forget the decoded objects that a packed store keeps; the next reads decode again.

        They are kept for the speed of reads alone, so this gives memory back and changes no answer.
        """
        if isinstance(self._shelf, PackedShelf):
            self._shelf.forget_decoded()
            self._views.clear()

    def resources(self) -> list[str]:
        """Return the names of the resources that the database has, in order."""
        self._check_open()
        names: list[str] = orjson.loads(self._db.one(_RESOURCES))
        return names

    # Writes

    def _commit(self, changes: Sequence[Change], rv: str | None) -> None:
        rows = [*self._shelf.rows(changes)]
        selectors = self._selectors_of(changes)
        resource = self._prepare_writes()
        followers: list[Callable[[], None]] = []
        batches = list(_plannable(rows)) or [[]]
        plans: list[Plan] = []
        if self._memory and len(batches) == 1:
            # Nobody else writes to this database, so readers need not wait for the planning.
            keys = self._labels.keys
            rows_known = self._known_rows.at(self._memory.changes)
            plan = self._writer.plan(self._db.one, resource, keys, batches[0], known=rows_known)
            statements = plan.statements
            if _at_once(statements) and not (plan.distinct or keys.dropping):
                self._memory.run(statements, self._followers(self._memory, plan, rv, selectors))
                return
            plans = [plan]
        with (
            self._db.writing(followers) as connection,
            self._labels.writing(connection, resource, followers) as labels,
        ):
            query = reader(connection)
            writes = []
            known = True
            for plan in plans or (
                self._writer.plan(query, resource, labels.keys, each) for each in batches
            ):
                run(connection, plan.statements)
                followers.append(self._shelf.follow(plan.batch))
                labels.count(plan.distinct)
                writes.append(Write(plan.batch, plan.old))
                known = known and plan.known
            version = self._set_versions(connection, followers, rv, changed=bool(changes))
            if changes:
                followers += self._following(version, writes if known else None, selectors)

    def _followers(
        self, memory: MemoryDatabase, plan: Plan, rv: str | None, selectors: Selectors
    ) -> Iterator[Callable[[], None]]:
        """Yield what follows a batch in memory."""
        yield lambda: self._known_rows.keep(plan.rows, plan.sequences, memory.changes)
        yield self._shelf.follow(plan.batch)
        yield partial(self._note_version, rv)
        writes = [Write(plan.batch, plan.old)] if plan.known else None
        yield from self._following(None, writes, selectors)

    def _commit_replace(self, changes: Iterable[Change], rv: str) -> None:
        selectors: Selectors = {}

        def noted() -> Iterator[Change]:
            for change in changes:
                selectors.update(self._selectors_of([change]))
                yield change

        rows: Iterable[Row] = self._shelf.rows(changes if self._filed is None else noted())
        if self._memory:
            # Readers wait for the statements only. Each row is let go when it is written.
            rows = _draining({row.key: row for row in rows})
        resource = self._prepare_writes()
        followers: list[Callable[[], None]] = []
        with (
            self._db.writing(followers) as connection,
            self._labels.writing(connection, resource, followers) as labels,
        ):
            query = reader(connection)
            gone = set(self._shelf.ids(query, resource))
            waiting: dict[int, list[int]] = {}  # postings, for a few large statements
            number_waiting = 0
            for batch in _plannable(rows):
                latest = list({row.key: row for row in batch}.values())
                plan = self._writer.plan(query, resource, labels.keys, latest)
                gone.difference_update(
                    number for number, _ in (*plan.batch.same, *plan.batch.moved)
                )
                followers.append(self._shelf.follow(plan.batch))
                if plan.removed or number_waiting > _POSTINGS_PER_RUN:
                    add_postings(connection, waiting)
                    waiting, number_waiting = {}, 0
                for label_id, object_ids in plan.added.items():
                    waiting.setdefault(label_id, []).extend(object_ids)
                    number_waiting += len(object_ids)
                run(connection, plan._replace(added={}).statements)
                labels.count(plan.distinct)
            add_postings(connection, waiting)
            for ids in batched(gone, _OBJECTS_PER_PLAN):
                plan = self._writer.plan(query, resource, labels.keys, [], ids)
                run(connection, plan.statements)
                labels.count(plan.distinct)
                followers.append(self._shelf.follow(plan.batch))
            for sql, parameters in self._shelf.replaced(resource):
                connection.execute(sql, parameters)
            version = self._set_versions(connection, followers, rv, changed=True)
            followers += self._following(version, None, selectors, whole=True)

    def _commit_indexers(self, indexers: Indexers, values: Mapping[str, IndexValues]) -> None:
        resource = self._prepare_writes()
        current = self._indexers
        if self._memory:
            # Index functions may read the store, so not while its readers are kept out.
            known = {
                key: {**index_values(current, key, obj), **values[key]}
                for key, obj in self._items()
            }
            self._reindex(resource, lambda key, _: known[key])
        else:
            # Of the objects as they are then: other processes may have changed some meanwhile.
            both = {**current, **indexers}
            self._reindex(resource, lambda key, obj: index_values(both, key, obj))

    def _prepare_writes(self) -> int:
        """Return the resource's id. The first time, make sure of it and of the index values.

        Index values in a file were given by the functions of whoever wrote them; ours may differ.
        """
        if self._ready_to_write and self._resource_id is not None:
            return self._resource_id
        with self._db.writing() as connection:
            resource = resource_id(connection, self.resource)
            stale = reader(connection)(_HAS_INDEXES, (resource,))
        self._labels.adopt(resource)
        if not self._memory and (stale or self._indexers):
            self._reindex(resource, lambda key, obj: index_values(self._indexers, key, obj))
        self._resource_id, self._ready_to_write = resource, True
        return resource

    def _reindex(self, resource: int, values: Callable[[str, Object], IndexValues]) -> None:
        followers: list[Callable[[], None]] = []
        with (
            self._db.writing(followers) as connection,
            self._labels.writing(connection, resource, followers) as labels,
        ):
            query = reader(connection)
            for ids in batched(self._shelf.ids(query, resource), _OBJECTS_PER_PLAN):
                objects = self._shelf.stored(query, ids)
                rows = self._writer.reindexed(query, resource, objects, values)
                plan = self._writer.plan(query, resource, labels.keys, rows)
                run(connection, plan.statements)
                labels.count(plan.distinct)
                followers.append(self._shelf.follow(plan.batch))
            followers.append(self._shelf.members.show)

    def _set_versions(
        self,
        connection: sqlite3.Connection,
        followers: list[Callable[[], None]],
        rv: str | None,
        *,
        changed: bool,
    ) -> int | None:
        """Set the resourceVersion, and count the write of a file's content; return its number."""
        if self._memory:
            followers.append(partial(self._note_version, rv))
            return None
        parameters = (rv, int(changed), self.resource)
        # All rows, if only one: else the statement would not be over.
        [(version,)] = connection.execute(_SET_VERSIONS, parameters).fetchall()
        return int(version)

    def _note_version(self, rv: str | None) -> None:
        if rv is not None:
            self._memory_version = rv

    def _following(
        self,
        version: int | None,
        writes: Sequence[Write] | None,
        selectors: Selectors,
        *,
        whole: bool = False,
    ) -> Iterator[Callable[[], None]]:
        """Yield what follows a commit besides the shelf.

        Args:
            version: of the content of a file after it; None in memory.
            writes: None if it is not known what they changed.
            selectors: what the objects written select.
            whole: all objects were replaced.
        """
        yield self._views.follow(writes, version)
        if self._filed is not None and (selectors or whole):
            yield self._filed.follow(selectors, version, whole=whole)

    def _set_source(self, source: str) -> None:
        self._prepare_writes()
        with self._db.writing() as connection:
            connection.execute(_SET_SOURCE, (source, self.resource))

    # Reads

    def _items(self) -> Iterator[tuple[str, Object]]:
        with self._reading() as (query, resource):
            ids = self._shelf.ids(query, resource)
            objects = self._shelf.stored(query, ids)
            keys = [(stored.id, stored.key) for stored in self._shelf.find_ids(query, ids)]
        return ((key, objects[object_id]) for object_id, key in keys)

    def _get_by_key(self, key: str) -> Object | None:
        if unsound(key):
            return None
        with self._reading() as (query, resource):
            return self._shelf.get(query, resource, key)

    def _get_by_keys(self, keys: Sequence[str]) -> dict[str, Object]:
        sound = [key for key in keys if not unsound(key)]
        with self._reading() as (query, resource):
            filings = self._shelf.find(query, resource, sound)
            ids = {key: filing[0] for key, filing in zip(sound, filings, strict=True) if filing}
            # Not through the hot objects: this is asked for by writers, and once.
            objects = self._shelf.stored(query, list(ids.values()))
        return {key: objects[object_id] for key, object_id in ids.items()}

    def _list_keys(self) -> Keys:
        with self._reading() as (query, resource):
            return self._shelf.keys(query, resource)

    def _walk_keys(self) -> Iterator[Keys]:
        if self._live:
            yield from super()._walk_keys()  # a copy of the process's own is quick
            return
        after: str | None = None
        while True:
            with self._reading() as (query, resource):
                keys = keys_after(query, resource, after, KEYS_AT_ONCE)
            if not keys:
                return
            yield keys
            after = keys[-1]

    def _select(self, namespace: str, selector: Selector) -> Objects:
        if selector == NOTHING:
            return []
        if self._memory and (hot := self._views.find(namespace, selector)) is not None:
            return hot
        self._demand(selector)
        with self._reading() as (query, resource):
            version, keys = self._state(query, resource)
            if not self._memory and (hot := self._hot(namespace, selector, version)) is not None:
                return hot
            place = selection.Place(resource, namespace)
            selected = selection.select(query, place, selector, keys, live=self._live)
            wanted = self._views.wanted(namespace, selector)
            if wanted or (selected.residual and not self._live):
                ids, objs = self._found(query, place, selected)
            else:
                objs = self._fetch(query, place, selected)
            size_bytes = self._shelf.weigh(query, ids) if wanted else 0
        if not wanted:
            return _filtered(objs, selected.residual) if self._live else objs
        self._views.put(namespace, selector, ids, objs, version, size_bytes)
        return objs

    def _state(self, query: Query, resource: int) -> tuple[int, LabelKeys]:
        """Return the version of the content that is read, and which label keys are indexed.

        Call it where the reading starts.
        """
        if self._memory:
            return self._views.version, self._labels.keys  # they move where readers are kept out
        return self._labels.read(query, resource)

    def _demand(self, selector: Selector) -> None:
        """Index the label keys that a selector uses, where that waits for the first use."""
        if self._labels.keys.policy.on_demand:
            if self._resource_id is None:
                self._resource_id = self._db.one(_RESOURCE, (self.resource,))
            used = {each.key for each in selector.requirements if not unsound(each.key)}
            self._labels.demand(self._resource_id or 0, used)

    def _hot(self, namespace: str, selector: Selector, version: int) -> Objects | None:
        """Return a view of the content that a reader of a file sees, or None."""
        # While a write of this store is under way, the views may be one commit behind.
        if version > self._views.version and not self._write_lock.locked():
            self._views.catch_up(version)
        if version != self._views.version:
            return None
        return self._views.find(namespace, selector)

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> Objects:
        filed = self._filed
        if filed is None:
            raise NoSelectorsError(self.resource)
        with ExitStack() as block:
            with filed.lock:
                query, resource = block.enter_context(self._reading())
                keys = filed.matching(query, resource, namespace, labels)
            if not keys:
                return []
            filings = self._shelf.find(query, resource, keys)
            return self._shelf.fetch(query, [filing[0] for filing in filings if filing])

    def _count(self, namespace: str, selector: Selector) -> int:
        if selector == NOTHING:
            return 0
        self._demand(selector)
        with self._reading() as (query, resource):
            place = selection.Place(resource, namespace)
            keys = self._labels.snapshot(query, resource)
            selected = selection.select(query, place, selector, keys, live=self._live)
            if not selected.residual:
                found = len(selected.ids)
                return selection.members(query, place) - found if selected.inverted else found
            if not self._live:
                return len(self._found(query, place, selected)[0])
            objs = self._fetch(query, place, selected)
        return len(_filtered(objs, selected.residual))

    def _fetch(
        self, query: Query, place: selection.Place, selected: selection.Selection
    ) -> Objects:
        if not selected.inverted:
            return self._shelf.fetch(query, list(selected.ids))
        return self._shelf.everything_but(query, *place, set(selected.ids))

    def _ids(
        self, query: Query, place: selection.Place, selected: selection.Selection
    ) -> list[int]:
        if not selected.inverted:
            return list(selected.ids)
        return self._shelf.ids_but(query, *place, set(selected.ids))

    def _found(
        self, query: Query, place: selection.Place, selected: selection.Selection
    ) -> tuple[list[int], Objects]:
        """Return the ids of what is selected, and the objects, in the same order."""
        ids = self._ids(query, place, selected)
        if not selected.residual:
            return ids, self._shelf.fetch(query, ids)
        return self._shelf.matching(query, ids, Selector(selected.residual).matches)

    def _explain(self, namespace: str, selector: Selector) -> Explanation:
        self._demand(selector)
        statements: dict[str, tuple[Any, ...]] = {}
        with self._reading() as (query, resource):

            def recorded(sql: str, parameters: tuple[Any, ...] = ()) -> Any:
                statements.setdefault(sql, parameters)
                return query(sql, parameters)

            place = selection.Place(resource, namespace)
            keys = self._labels.snapshot(query, resource)
            selected = (
                selection.Selection(driving="nothing")
                if selector == NOTHING
                else selection.select(recorded, place, selector, keys, live=self._live)
            )
        plan = []
        with self._db.reading() as connection:
            for sql, parameters in statements.items():
                steps = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
                plan += [str(step[3]) for step in steps.fetchall()]
        return Explanation(
            backend=self.backend,
            namespace=namespace,
            selector=str(selector),
            driving=selected.driving,
            estimated=selected.estimated,
            matched=self._count(namespace, selector),
            residual=tuple(str(each) for each in selected.residual),
            unindexed=tuple(str(each) for each in selected.residual if not keys.complete(each.key)),
            plan=tuple(plan),
            sql=tuple(statements),
        )

    def _stats(self) -> StoreStats:
        with self._reading() as (query, resource):
            keys = self._labels.snapshot(query, resource)
            objects, namespaces, label_keys = statistics.collect(query, resource, keys)
            if statistics.unindexed(query, keys):
                ids = self._shelf.ids(query, resource)
                parts = (self._shelf.stored(query, part) for part in batched(ids, 500))
                found = (obj for part in parts for obj in part.values())
                label_keys = statistics.ordered((*label_keys, *statistics.counted(found, keys)))
            bodies = statistics.bodies(query, resource)
        return StoreStats(
            backend=self.backend,
            resource=self.resource,
            resource_version=self._resource_version(),
            objects=objects,
            namespaces=namespaces,
            label_keys=label_keys,
            database_bytes=self._db.size_bytes(),
            views=self._views.stats(),
            bodies=bodies,
        )

    def _size(self) -> StoreSize:
        with self._reading() as (query, resource):
            objects, scopes = statistics.namespaces(query, resource)
            keys = self._labels.snapshot(query, resource)
        # One by one: other readers of a database in memory need not wait for all.
        terms = sum(self._db.one(statistics.LABELS_OF, (scope,)) for scope in scopes)
        return StoreSize(objects, terms, self._db.size_bytes(), len(keys.over))

    def _by_index(self, index_name: str, values: Sequence[str]) -> Objects:
        with self._reading() as (query, resource):
            ids = _ids_by_index(query, resource, index_name, values)
            return self._shelf.fetch(query, orjson.loads(ids))

    def _index_keys(self, index_name: str, value: str) -> Keys:
        with self._reading() as (query, resource):
            ids = _ids_by_index(query, resource, index_name, [value])
            return self._shelf.keys_of(query, orjson.loads(ids))

    def _index_values(self, index_name: str) -> Keys:
        with self._reading() as (query, resource):
            values: Keys = orjson.loads(query(_INDEX_VALUES, (index_name, resource)))
            return values

    def _resource_version(self) -> str:
        if self._memory:
            with self._memory.reading():
                return self._memory_version
        return self._db.one(_VERSION, (self.resource,)) or ""

    def _source(self) -> str:
        return self._db.one(_SOURCE, (self.resource,)) or ""

    def _reading(self) -> _Reading:
        return _Reading(self._db.reading(), self._known_resource)

    def _known_resource(self, query: Query) -> int:
        if self._resource_id is None:
            self._resource_id = query(_RESOURCE, (self.resource,))
        return self._resource_id or 0  # before the first write nothing has this id

    # Last of the reads: its name hides the builtin in the class body from here on.
    def _list(self) -> Objects:
        with self._reading() as (query, resource):
            return self._shelf.everything_but(query, resource, "", ())

    def _close(self) -> None:
        self._db.close()


class _Reading(AbstractContextManager[tuple[Query, int]]):
    """A block that reads one state: gives a query function and the id of the resource."""

    def __init__(
        self,
        block: AbstractContextManager[sqlite3.Connection],
        resource: Callable[[Query], int],
    ) -> None:
        self._block, self._resource = block, resource

    def __enter__(self) -> tuple[Query, int]:
        query = reader(self._block.__enter__())
        try:
            return query, self._resource(query)
        except BaseException as error:
            self._block.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._block.__exit__(kind, error, traceback)


def _ids_by_index(query: Query, resource: int, index_name: str, values: Iterable[str]) -> str:
    sound = [value for value in values if not unsound(value)]
    ids: str = query(_INDEX_IDS, (index_name, resource, to_json(sound)))
    return ids


def _draining(rows: dict[str, Row]) -> Iterator[Row]:
    while rows:
        yield rows.popitem()[1]


def _plannable(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size_bytes = 0
    for row in rows:
        batch.append(row)
        size_bytes += len(row.body.content) if row.body else 0
        if len(batch) >= _OBJECTS_PER_PLAN or size_bytes >= _BYTES_PER_PLAN:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _at_once(statements: Sequence[Statement]) -> bool:
    """Return whether statements are one, or none, that SQLite takes whatever its limits are."""
    return len(statements) <= 1 and all(
        len(text) <= _BYTES_PER_PLAN
        for _, parameters in statements
        for text in parameters
        if isinstance(text, str)
    )


def _filtered(objs: Objects, residual: Sequence[Requirement]) -> Objects:
    if not residual:
        return objs
    matches = Selector(residual).matches
    return [obj for obj in objs if matches(obj["metadata"].get("labels"))]
