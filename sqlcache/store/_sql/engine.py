"""Connections to SQLite: in memory behind one lock, in a file through WAL.

Promises
- A write is one transaction; if anything in it fails, it is rolled back. Without memory for that, a
  database that holds no objects is given up: every block raises `DatabaseError`.
- A `reading` block sees one state of the database.
- Driver errors come out as `DatabaseError` or one of its subclasses, naming the database.
- `close` waits for blocks under way; afterwards every block raises `StoreClosedError`.

In memory there is one connection, and one lock that each block holds. In a file there is one
connection for writers and a pool of them for readers, who never wait for a writer. Several stores
of one process on one file share a lock for writers: they wait as long as it takes, where another
process waits for the busy timeout.

Elsewhere: schema versions (upgrade), statements (lookups, writer, selection).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from sqlcache.errors import (
    BackendError,
    DamagedDatabaseError,
    DatabaseError,
    NotACacheError,
    ReentrantWriteError,
    StoreClosedError,
)
from sqlcache.store._sql import batch_trigger, upgrade
from sqlcache.store._sql.counted import Statement

MINIMUM_SQLITE = (3, 35, 0)  # UPSERT from a SELECT, UPDATE FROM, ->> come by then or are not used
_BUSY_TIMEOUT_S = 10.0
_BUSY_RETRY_S = 0.005
_HEADER_BYTES = 100  # of a database file
_APPLICATION_ID_AT = slice(68, 72)  # of these
_DERIVED_PAGE_BYTES = 32_768
_NO_JOURNAL = "PRAGMA journal_mode=OFF"
_STATEMENTS_CACHED = 256  # per connection; a selector shape is one statement
_FILE_PRAGMAS = (
    "PRAGMA synchronous=NORMAL",  # enough for a crash of the process; sqlite.org/wal.html
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-16384",  # KiB
    "PRAGMA journal_size_limit=67108864",  # bytes: the log shrinks again after a large replace
)


class Database(ABC):
    """One SQLite database."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Return a context manager that gives a connection with one state of the database."""

    @abstractmethod
    def writing(
        self, followers: Iterable[Callable[[], None]] = (), wait_s: float | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        """Return a context manager that gives a connection within a write transaction.

        It commits at the end of the block, or rolls back if the block raises.

        Args:
            followers: called after the commit, before anybody reads its result through the
                connection of a database in memory. May grow within the block. Each may be called
                twice.
            wait_s: how long to wait for other writers of a file, for those of this process and
                then for those of others; None: as ever.

        Raises:
            TimeoutError: others wrote for longer than `wait_s`.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections, when no block is under way."""

    def one(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        """Return the first column of the first row, or None without rows."""
        with self.reading() as connection:
            row = connection.execute(sql, parameters).fetchone()
        return row[0] if row else None

    def size_bytes(self) -> int:
        """Return the size of all pages."""
        return int(self.one("PRAGMA page_count")) * int(self.one("PRAGMA page_size"))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise translated(self.name, error) from error


class MemoryDatabase(Database):
    """A database that lives and dies with this object."""

    def __init__(self, *, derived: bool) -> None:
        """Open an empty database.

        Args:
            derived: all that is in it is made from what the caller keeps elsewhere. Then `run`
                does without a journal, which would copy each page that it changes: should SQLite
                fail half-way, as it does only when memory runs out, the database is given up.
        """
        super().__init__(":memory:")
        _check_sqlite()
        self._lock: Any = threading.RLock()  # which knows its owner
        self._block = _Locked(self)
        self._derived = derived
        self._failure: DatabaseError | None = None
        self._connection: sqlite3.Connection | None = connect(":memory:")
        # Debian builds SQLite to overwrite what is deleted; memory goes back to the process anyway.
        self._connection.execute("PRAGMA secure_delete=OFF")
        self._connection.execute("PRAGMA temp_store=MEMORY")
        if derived:  # of larger pages, less is lost; where pages are copied, that costs more
            self._connection.execute(f"PRAGMA page_size={_DERIVED_PAGE_BYTES}")
        upgrade.create(self._connection)
        batch_trigger.prepare(self._connection)
        if derived:
            self._connection.execute(_NO_JOURNAL)

    @property
    def changes(self) -> int:
        """How many rows were changed so far: nobody else has this database."""
        if self._connection is None:
            raise self.unusable
        return self._connection.total_changes

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._block

    @contextmanager
    def writing(
        self, followers: Iterable[Callable[[], None]] = (), wait_s: float | None = None
    ) -> Iterator[sqlite3.Connection]:
        with (
            self._block as connection,
            self._journal(connection),
            transaction(connection, "BEGIN", followers),
        ):
            yield connection

    @contextmanager
    def _journal(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Have what it takes to roll back, within the block."""
        if not self._derived:
            yield
            return
        connection.execute("PRAGMA journal_mode=MEMORY")
        try:
            yield
        finally:
            connection.execute(_NO_JOURNAL)

    def run(self, statements: Sequence[Statement], followers: Iterable[Callable[[], None]]) -> None:
        """Run one statement or none, and call what follows, as `writing` does.

        A statement is a transaction of its own, and each one that begins or ends a transaction
        gives the interpreter lock away.

        Args:
            statements: what SQLite can run, unless memory runs out.
            followers: as in `writing`.
        """
        with self._block as connection:
            followers, written = list(followers), False  # a generator would not come twice
            before = connection.total_changes
            try:
                for sql, parameters in statements:
                    connection.execute(sql, parameters)
                written = True
                _follow(followers)
            except BaseException as error:
                if not written and isinstance(error, sqlite3.Error | MemoryError):
                    if self._derived:
                        self._give_up(connection, error)
                elif written or connection.total_changes != before:  # Ctrl-C after it was done
                    _follow(followers)
                raise

    def _give_up(self, connection: sqlite3.Connection, error: sqlite3.Error | MemoryError) -> None:
        reason = str(error) or "out of memory"  # what Python's MemoryError does not say
        self._failure = DatabaseError(
            self.name, f"a write failed half-way ({reason}): close the store and fill a new one"
        )
        self._connection = None
        connection.close()

    @property
    def unusable(self) -> DatabaseError | StoreClosedError:
        """Why there is no connection."""
        return self._failure or StoreClosedError()

    def _let_go(self) -> None:
        """Give the lock back that a block of this thread kept, which Ctrl-C ended.

        Python minds signals where a function starts, so also before the first line of `__exit__`.

        Raises:
            ReentrantWriteError: a write of this thread is under way, as where an index function
                reads the store.
        """
        if self._lock._is_owned():
            if self._connection is not None and self._connection.in_transaction:
                raise ReentrantWriteError
            self._lock.release()

    def close(self) -> None:
        with self._lock, self._translated():
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if self._lock._is_owned():  # kept by a block that Ctrl-C ended
            self._lock.release()


class _Locked(AbstractContextManager[sqlite3.Connection]):
    """A block that holds the lock of a database in memory.

    Written out, for this is the path of every read: as generators, the lock, the translation of
    errors and this would cost as much as a small query.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        lock = self._database._lock
        self._database._let_go()
        try:
            lock.acquire()
            connection = self._database._connection
            if connection is None:
                raise self._database.unusable
        except BaseException:  # also Ctrl-C, maybe once it is held
            if lock._is_owned():
                lock.release()
            raise
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._database._lock._is_owned():
            self._database._lock.release()
        if isinstance(error, sqlite3.Error):
            raise translated(self._database.name, error) from error


class FileDatabase(Database):
    """A database file; any number of threads and processes read it while one writes."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        _check_sqlite()
        self._path = os.path.abspath(path)  # readers open it later, maybe in another directory
        self._state = threading.Condition()
        self._active = 0
        self._closed = False
        self._readers: list[sqlite3.Connection] = []  # idle ones
        with self._translated():
            self._writer = open_file(path)
            batch_trigger.prepare(self._writer)
        self._file = _file_at(path)
        self._write_lock = _write_lock_of(self._file)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._counted(), self._translated():
            connection = self._borrow()
            try:
                with transaction(connection, "BEGIN"):
                    yield connection
            finally:
                with self._state:
                    self._readers.append(connection)

    @contextmanager
    def writing(
        self, followers: Iterable[Callable[[], None]] = (), wait_s: float | None = None
    ) -> Iterator[sqlite3.Connection]:
        # IMMEDIATE: a read that turns into a write can fail with SQLITE_BUSY at once, whatever
        # the busy timeout says.
        begin = "BEGIN IMMEDIATE"
        with (
            self._counted(),
            self._translated(),
            self._turn(wait_s),
            transaction(self._writer, begin, followers),
        ):
            self._check_place()
            yield self._writer

    def _check_place(self) -> None:
        """Check that the file that was opened is still there.

        Else writes would go into one that nobody finds, and new readers into another one.
        Source: sqlite.org/howtocorrupt.html, unlinking or renaming a database file while in use.
        """
        try:
            if _file_at(self._path) == self._file:
                return
        except FileNotFoundError:
            pass
        raise DatabaseError(self._path, "was removed or replaced while a store had it open")

    @contextmanager
    def _turn(self, wait_s: float | None) -> Iterator[None]:
        """Wait for the other writers of this process, and with a limit for those of others."""
        if wait_s is None:
            with self._write_lock:
                yield
            return
        if not self._write_lock.acquire(timeout=wait_s):
            raise TimeoutError
        try:
            self._writer.execute(f"PRAGMA busy_timeout={wait_s * 1000:.0f}")
            yield
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise TimeoutError from error
            raise
        finally:
            try:
                self._writer.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_S * 1000:.0f}")
            finally:
                self._write_lock.release()

    def close(self) -> None:
        with self._state:
            self._closed = True
            self._state.wait_for(lambda: self._active == 0)
            connections = [*self._readers, self._writer]
            self._readers = []
        with self._translated():
            for connection in connections:
                connection.close()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._state:
            if self._closed:
                raise StoreClosedError
            self._active += 1
        try:
            yield
        finally:
            with self._state:
                self._active -= 1
                self._state.notify_all()

    def _borrow(self) -> sqlite3.Connection:
        with self._state:
            if self._readers:
                return self._readers.pop()
        self._check_place()
        connection = connect(self._path)
        for pragma in _FILE_PRAGMAS:
            connection.execute(pragma)
        return connection


_File: TypeAlias = tuple[int, int]  # what tells it from others by whatever name

_LOCKS: WeakValueDictionary[_File, threading.RLock] = WeakValueDictionary()
_LOCKS_LOCK = threading.Lock()


def _file_at(path: str) -> _File:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _write_lock_of(file: _File) -> threading.RLock:
    """Return the lock for the writers of a file in this process.

    A thread that has it may enter again: what it does to itself, SQLite refuses.
    """
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(file, threading.RLock())


@contextmanager
def transaction(
    connection: sqlite3.Connection, begin: str, followers: Iterable[Callable[[], None]] = ()
) -> Iterator[None]:
    """Run a block in a transaction: commit at its end, roll back if it raises.

    Args:
        connection: without a transaction.
        begin: the statement that begins one.
        followers: called after the commit; see `Database.writing`.
    """
    ended = False
    try:
        connection.execute(begin)
        yield
        ended = True
        connection.execute("COMMIT")
        _follow(followers)
    except BaseException as error:
        # A full disk may have made SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        elif ended and not isinstance(error, sqlite3.Error):
            _follow(followers)  # Ctrl-C right after the commit
        raise


def _follow(followers: Iterable[Callable[[], None]]) -> None:
    waiting = deque(followers)
    try:
        while waiting:
            waiting[0]()
            waiting.popleft()
    except BaseException:
        # Ctrl-C after the commit: what follows it must still match the tables.
        with ExitStack() as rest:  # which calls all of them, also if one fails again
            for follower in reversed(waiting):
                rest.callback(follower)
        raise


def open_file(path: str) -> sqlite3.Connection:
    """Open a cache file for writing; make it, mode 0600, or bring its schema up to date.

    Raises:
        NotACacheError, DamagedDatabaseError, SchemaVersionError: it is left as it is.
        sqlite3.Error: it cannot be opened or upgraded.
    """
    prepare_file(path)
    connection = connect_file(path)
    try:
        for pragma in _FILE_PRAGMAS:
            connection.execute(pragma)
        if upgrade.current(connection) != upgrade.HEAD:
            upgrade.upgrade(connection)
        # Persistent, and refused within a transaction: so last, when the file is known as ours.
        _use_wal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Turn WAL mode on, and wait for others as long as the busy timeout.

    SQLite refuses at once if another connection is about to write, where waiting could be a
    deadlock: so those who open a new file together would fail. Source:
    sqlite.org/c3ref/busy_handler.html.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_BUSY_RETRY_S)


def prepare_file(path: str) -> None:
    """Make an empty file, mode 0600; if there is one with content, check it.

    Raises: as `check_file`.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        _roll_back(path)
        check_file(path)
    except OSError as error:
        raise DatabaseError(path, error.strerror or str(error)) from error


def _roll_back(path: str) -> None:
    """Undo what a process left half-done that died before it had turned WAL on.

    Nobody can read the file until then, not even to check it. In one of somebody else's, that is
    left to them. Source: sqlite.org/fileformat2.html, the rollback journal and the header.
    """
    if not Path(f"{path}-journal").exists():
        return
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise DatabaseError(path, error.strerror or str(error)) from error
    if any(header) and int.from_bytes(header[_APPLICATION_ID_AT]) != upgrade.APPLICATION_ID:
        raise NotACacheError(path, "has a journal and is nothing that sqlcache made")
    try:
        with closing(connect_file(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.Error as error:
        raise translated(path, error) from error


def check_file(path: str) -> None:
    """Check, without touching it, that a file is a sound cache of a known version, or empty.

    Raises:
        NotACacheError: it is no regular file, no SQLite database, or somebody else's.
        DamagedDatabaseError: it is cut short or its schema is unreadable.
        SchemaVersionError: it comes from a newer release.
        DatabaseError: it cannot be read.
    """
    if Path(path).is_dir():
        raise NotACacheError(path, "is a directory")
    if Path(path).exists() and not Path(path).is_file():
        raise NotACacheError(path, "is no regular file")
    before = _at_rest(path)
    if before is None:
        _check_content(path, "mode=ro")
        return
    # Even to read, SQLite makes files beside one in WAL mode, and leaves them there. It does not
    # if told that nobody writes: so what looks wrong counts only if that was so.
    try:
        _check_content(path, "mode=ro&immutable=1")
    except DatabaseError:
        if _at_rest(path) == before:
            raise
        _check_content(path, "mode=ro")


def _at_rest(path: str) -> tuple[int, ...] | None:
    """Return what changes when a file is written; None if somebody may be writing it."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal")):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_content(path: str, how: str) -> None:
    try:
        connection = connect(f"{Path(path).absolute().as_uri()}?{how}", uri=True)
        try:
            if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                return
            application_id = connection.execute("PRAGMA application_id").fetchone()[0]
            if application_id != upgrade.APPLICATION_ID:
                raise NotACacheError(path, "is an SQLite database that sqlcache did not make")
            pages, page_bytes = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "page_size")
            )
            log = Path(f"{path}-wal")
            if not (log.exists() and log.stat().st_size):
                expected, actual = pages * page_bytes, Path(path).stat().st_size
                if actual < expected:
                    raise DamagedDatabaseError(
                        path, f"is cut short: {actual} bytes instead of {expected}"
                    )
            upgrade.check_known(path, upgrade.current(connection))
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translated(path, error) from error


def translated(name: str, error: sqlite3.Error) -> DatabaseError | StoreClosedError:
    """Return our error for one of the driver's. Source: sqlite.org/rescode.html."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_NOTADB:
        return NotACacheError(name, "is not an SQLite database")
    if primary == sqlite3.SQLITE_CORRUPT:
        return DamagedDatabaseError(name, f"is damaged ({error}); load it again")
    reasons = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_READONLY: "is read-only",
        sqlite3.SQLITE_BUSY: f"another process has held it for {_BUSY_TIMEOUT_S:.0f} s",
        sqlite3.SQLITE_IOERR: f"{error}: the disk may be full, or fail",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened",
        sqlite3.SQLITE_PERM: "permission denied",
    }
    return DatabaseError(name, reasons.get(primary, str(error)) if primary else str(error))


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether others hold what a statement needed."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        needed = ".".join(map(str, MINIMUM_SQLITE))
        raise BackendError(f"SQLite {needed} or newer is needed, found {sqlite3.sqlite_version}")


def connect_file(path: str) -> sqlite3.Connection:
    """Return a connection to a file, whatever its name: SQLite takes some for URIs or memory."""
    return connect(os.path.abspath(path))


def connect(database: str, *, uri: bool = False) -> sqlite3.Connection:
    """Return a connection that begins no transaction by itself and may be used by any thread."""
    # isolation_level=None: the driver's own transactions commit around schema changes on 3.11.
    return sqlite3.connect(
        database,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS_CACHED,
        uri=uri,
    )
