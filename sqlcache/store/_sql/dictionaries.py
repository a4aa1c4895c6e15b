"""Dictionaries in the database: read where a row needs one, written with the rows that need it.

Promises
- A row's dictionary is committed with the row, so that any later reader can decode it. In a file
  each write makes sure of it: another process may have removed a dictionary that it saw no row of.
- A dictionary goes when no row needs it and a newer one is there. That takes a look at every row,
  so it is done when a new one comes, and when all objects were replaced.

Elsewhere: what dictionaries do, when they are trained (compression).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sqlcache.errors import CompressedError, DamagedDatabaseError
from sqlcache.store._sql.compression import Body, Bytes, Compressor, Dictionary, library
from sqlcache.store._sql.counted import Query, Statement

if TYPE_CHECKING:
    from sqlalchemy import Connection

_IDS = "SELECT json_group_array(id) FROM dictionary WHERE resource_id = ?"
_NEWEST = "SELECT id FROM dictionary WHERE resource_id = ? ORDER BY version DESC LIMIT 1"
_CONTENT = "SELECT content FROM dictionary WHERE id = ?"
_RATIO = "SELECT ratio FROM dictionary WHERE id = ?"
_ADD = "INSERT INTO dictionary (resource_id, id, version, ratio, content) VALUES (?, ?, ?, ?, ?)"
_SWEEP = (  # reads all objects, which is rare; +: an index would be read as well as each row
    "DELETE FROM dictionary WHERE resource_id = :resource_id"
    " AND version < (SELECT max(version) FROM dictionary WHERE resource_id = :resource_id)"
    " AND NOT EXISTS (SELECT 1 FROM object o"
    "  WHERE +o.resource_id = :resource_id AND o.dictionary_id = dictionary.id)"
)
# By name: a migration before this one may have brought a temporary database into the list.
_FILE = "SELECT file FROM pragma_database_list WHERE name = 'main'"
_NO_LIBRARY = "its objects are compressed: pip install 'sqlcache[zstd]' to read them"
_KEPT = 16  # read dictionaries; a file has one or two
_ROWS_PER_STATEMENT = 500


class StoredBody(NamedTuple):
    """A body as its row has it.

    Attributes:
        content: bytes of JSON, or a frame of them.
        dictionary_id: what the frame needs; None for JSON.
        plain_bytes: the length of the JSON.
    """

    content: Bytes
    dictionary_id: int | None
    plain_bytes: int


class Dictionaries:
    """The dictionaries of one resource in one database, and what compresses with them."""

    def __init__(self, database: str, compressor: Compressor | None) -> None:
        """Start without any.

        Args:
            database: its name, for errors.
            compressor: None leaves what is written from now on as it is.
        """
        self._database, self._compressor = database, compressor
        self._read: dict[int, Dictionary] = {}
        self._stored: set[int] = set()  # known to be there, where nobody else writes

    def start(self, query: Query, resource_id: int) -> None:
        """Go on with the newest dictionary that is there.

        Raises:
            CompressedError: there is one, and no library.
        """
        newest = query(_NEWEST, (resource_id,))
        if newest is not None:
            dictionary = self.get(query, newest)
            if self._compressor is not None:
                self._compressor.adopt(dictionary)

    def bodies(self, plains: Sequence[bytes]) -> list[Body]:
        """Return objects, as JSON, as bodies."""
        return [*map(Body, plains)] if self._compressor is None else self._compressor.bodies(plains)

    def get(self, query: Query, dictionary_id: int) -> Dictionary:
        """Return a dictionary.

        Raises:
            CompressedError: there is no library, or the dictionary is missing.
        """
        dictionary = self._read.get(dictionary_id)
        if dictionary is None:
            found = library()
            if found is None:
                raise CompressedError(self._database, _NO_LIBRARY)
            content, ratio = (query(sql, (dictionary_id,)) for sql in (_CONTENT, _RATIO))
            if content is None:
                raise CompressedError(self._database, f"dictionary {dictionary_id} is missing")
            dictionary = Dictionary(found, content, ratio)
            if len(self._read) >= _KEPT:
                self._read.clear()
            self._read[dictionary_id] = dictionary
        return dictionary

    def decoded(self, query: Query, stored: Sequence[StoredBody]) -> list[Any]:
        """Return what rows' bodies were made of.

        Raises:
            CompressedError: one cannot be decompressed.
            DamagedDatabaseError: one is no JSON.
        """
        plains: list[Bytes] = []
        for dictionary_id, group in groupby(stored, key=attrgetter("dictionary_id")):
            bodies = [*group]
            contents: Sequence[Bytes] = [body.content for body in bodies]
            if dictionary_id is not None:
                dictionary = self.get(query, dictionary_id)
                sizes = [body.plain_bytes for body in bodies]
                try:
                    contents = dictionary.decompress_all(contents, sizes)
                except ValueError as error:
                    what = f"an object is damaged ({error}); load it again"
                    raise CompressedError(self._database, what) from error
            plains += contents
        try:
            return [*map(orjson.loads, plains)]
        except orjson.JSONDecodeError as error:
            raise DamagedDatabaseError(
                self._database, f"an object is damaged ({error}); load it again"
            ) from error

    def missing(
        self, query: Query, resource_id: int, bodies: Iterable[Body | None], *, shared: bool
    ) -> list[Dictionary]:
        """Return the dictionaries that bodies need and that are not in the database.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            bodies: about to be written.
            shared: whether other processes may write.
        """
        needed = used(bodies)
        if not shared and all(each.id in self._stored for each in needed):
            return []
        there = set(orjson.loads(query(_IDS, (resource_id,))))
        return [each for each in needed if each.id not in there]

    def sweep(self, resource_id: int) -> Statement:
        """Return what removes the dictionaries that no object needs, but for the newest."""
        self._stored.clear()  # what compresses objects may go on with one that goes now
        return _SWEEP, {"resource_id": resource_id}

    def noted(self, ids: Iterable[int]) -> None:
        """Take note that dictionaries are there, now that rows that need them are committed."""
        self._stored.update(ids)


def used(bodies: Iterable[Body | None]) -> set[Dictionary]:
    """Return the dictionaries that bodies need."""
    return {body.dictionary for body in bodies if body and body.dictionary}


def add(dictionaries: Iterable[Dictionary], version: int, resource_id: int) -> Iterator[Statement]:
    """Yield what puts dictionaries into the database, as part of the write of that version."""
    for each in dictionaries:
        yield _ADD, (resource_id, each.id, version, each.ratio, each.content)


def decompress_all(connection: Connection) -> None:
    """Make every object JSON again, for a schema that knows nothing else.

    Raises:
        CompressedError: there is no library.
    """
    name = connection.exec_driver_sql(_FILE).scalar() or ":memory:"

    def query(sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        return connection.exec_driver_sql(sql, parameters).scalar()

    found = Dictionaries(name, None)
    last = 0
    while rows := connection.exec_driver_sql(
        "SELECT id, body, dictionary_id FROM object WHERE id > ? AND dictionary_id IS NOT NULL"
        " ORDER BY id LIMIT ?",
        (last, _ROWS_PER_STATEMENT),
    ).all():
        for object_id, body, dictionary_id in rows:
            plain = found.get(query, dictionary_id).decompress(body)
            connection.exec_driver_sql(
                "UPDATE object SET body = ? WHERE id = ?", (plain, object_id)
            )
        last = rows[-1][0]
