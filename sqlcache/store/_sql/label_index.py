"""Keeps a store's `LabelKeys`: takes a policy over, builds the postings of keys, clears them away.

A key is built in steps: first it is marked, from when on every writer writes its postings; then
objects that were there before are gone through, some hundred in one transaction; then it is
complete. Each step looks at the objects as they are, so writes in between do no harm, a second
builder finds less to do, and whoever comes after one that died begins again.

Promises
- A writer waits for one step, not for the whole.
- In memory `keys` changes where readers are kept out; in a file a reader takes the keys from its
  own snapshot.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import orjson

from sqlcache.errors import DatabaseError, ReentrantWriteError
from sqlcache.store._sql.counted import Query, reader, to_json
from sqlcache.store._sql.engine import Database
from sqlcache.store._sql.label_keys import LabelKeys, LabelWrites, label_keys
from sqlcache.store._sql.packed import batched
from sqlcache.store._sql.shelf import Shelf
from sqlcache.store._sql.writer import Writer, run
from sqlcache.store._write_lock import WriteLock
from sqlcache.store.labels import LabelPolicy

_OBJECTS_PER_STEP = 500
_PAUSE_S = 0.0005  # between steps: Python's locks go to whoever asks first, so let a writer ask
_WAIT_S = 1.0  # a selector waits no longer for a write under way: it is answered without an index

_KEYS = "SELECT label_keys FROM resource WHERE id = ?"
_VERSION_AND_KEYS = "SELECT json_array(version, label_keys) FROM resource WHERE id = ?"
_CARRIED = (
    "SELECT json_group_array(k.name) FROM json_each(?) j CROSS JOIN label_key k"
    " WHERE k.name = j.value"
)

log = logging.getLogger(__name__)


class LabelIndex:
    """The label keys of one store.

    Attributes:
        keys: as this process saw them last.
    """

    def __init__(
        self,
        database: Database,
        shelf: Shelf,
        writer: Writer,
        write_lock: WriteLock,
        policy: LabelPolicy | None,
        *,
        shared: bool,
    ) -> None:
        """Keep the label keys of a store.

        Args:
            database: the store's.
            shelf: has its objects.
            writer: plans what is written.
            write_lock: held by whoever writes through the store.
            policy: which keys may be indexed; None leaves it at what the file has.
            shared: others may write to the database.
        """
        self._db, self._shelf, self._writer = database, shelf, writer
        self._write_lock, self._policy, self._shared = write_lock, policy, shared
        self._given_up: set[str] = set()
        self.keys = LabelKeys() if shared or policy is None else LabelKeys(policy)

    def read(self, query: Query, resource_id: int) -> tuple[int, LabelKeys]:
        """Return the version of a file's content and the label keys, in one snapshot."""
        version, text = orjson.loads(query(_VERSION_AND_KEYS, (resource_id,)) or "[0,null]")
        self.keys = label_keys(text)
        return version, self.keys

    def snapshot(self, query: Query, resource_id: int) -> LabelKeys:
        """Return the label keys in the state that `query` reads."""
        if self._shared:
            self.keys = label_keys(query(_KEYS, (resource_id,)))
        return self.keys

    @contextmanager
    def writing(
        self,
        connection: sqlite3.Connection,
        resource_id: int,
        followers: list[Callable[[], None]],
    ) -> Iterator[LabelWrites]:
        """Give what changes the label keys in a write transaction.

        At the end of the block, some rows of keys without an index are cleared away.

        Args:
            connection: within the transaction.
            resource_id: of the resource's row.
            followers: called after the commit; one is added if keys changed.
        """
        keys = self.keys
        if self._shared:
            row = connection.execute(_KEYS, (resource_id,)).fetchone()
            keys = label_keys(row[0] if row else None)
        writes = LabelWrites(connection, resource_id, keys)
        yield writes
        writes.clear_away()
        if writes.changed:
            followers.append(lambda: self._follow(writes))

    def adopt(self, resource_id: int) -> None:
        """Go over to the policy given, and build what it wants; the write lock is held."""
        with self._changing(resource_id) as (_, writes):
            if self._policy is not None and self._policy != writes.keys.policy:
                writes.adopt(self._policy)
            elif not self._shared and self._policy is not None:
                writes.set(writes.keys)
        if writes.keys.building and not writes.keys.policy.on_demand:
            self._build(resource_id, writes.keys.building, nullcontext)

    def demand(self, resource_id: int, keys: Iterable[str]) -> None:
        """Build the label keys that a selector uses, if the policy wants that and they lack."""
        wanted = self.keys.wanting(keys) - self._given_up
        if wanted and resource_id:
            wanted = frozenset(orjson.loads(self._db.one(_CARRIED, (to_json(sorted(wanted)),))))
        if not wanted or not resource_id:
            return
        try:
            self._build(resource_id, frozenset(wanted), self._turn, _WAIT_S)
        except (TimeoutError, ReentrantWriteError):
            return  # a long write is under way, maybe of the caller's; who asks next goes on
        except DatabaseError as error:
            self._given_up |= wanted
            log.warning("Labels %s stay without an index: %s", ", ".join(sorted(wanted)), error)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the write lock for a step.

        With a limit: a long write may be under way.
        """
        time.sleep(_PAUSE_S)
        with self._write_lock.turn_within(_WAIT_S):
            yield

    def _build(
        self,
        resource_id: int,
        wanted: frozenset[str],
        turn: Callable[[], AbstractContextManager[None]],
        wait_s: float | None = None,
    ) -> None:
        """Make keys complete.

        Args:
            resource_id: of the resource's row.
            wanted: the keys.
            turn: gives what is held for each step.
            wait_s: as `Database.writing` takes it.

        Raises:
            TimeoutError: others write for longer; what is done stays.
        """
        with turn(), self._changing(resource_id, wait_s) as (_, writes):
            demanded = writes.keys.wanting(wanted)
            if demanded:
                writes.set(writes.keys.with_demanded(demanded, writes.last_label()))
            marked = {key: writes.keys.since[key] for key in wanted & writes.keys.building}
        if not marked:  # another one was faster
            return
        # Whatever is written from now on gets its postings from its writer.
        with self._db.reading() as connection:
            ids = self._shelf.ids(reader(connection), resource_id)
        for step in batched(ids, _OBJECTS_PER_STEP):
            with turn(), self._changing(resource_id, wait_s) as (followers, writes):
                wanted = writes.keys.still_building(marked)
                if not wanted:
                    return
                query = reader(writes.connection)
                plan = self._writer.filling(query, resource_id, writes.keys, step, wanted)
                run(writes.connection, plan.statements)
                followers.append(self._shelf.follow(plan.batch))
                writes.count(plan.distinct)
        with turn(), self._changing(resource_id, wait_s) as (_, writes):
            writes.set(writes.keys.built(writes.keys.still_building(marked)))

    @contextmanager
    def _changing(
        self, resource_id: int, wait_s: float | None = None
    ) -> Iterator[tuple[list[Callable[[], None]], LabelWrites]]:
        followers: list[Callable[[], None]] = []
        with (
            self._db.writing(followers, wait_s) as connection,
            self.writing(connection, resource_id, followers) as writes,
        ):
            yield followers, writes

    def _follow(self, writes: LabelWrites) -> None:
        self.keys = writes.keys
        for key, n in writes.went_over.items():
            log.warning(
                "Label %s has %d values, more than the limit of %d: it loses its index",
                key,
                n,
                writes.keys.policy.distinct_limit,
            )
        writes.went_over = {}  # followers may be called twice
