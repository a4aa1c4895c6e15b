"""One writer a file: what keeps a mirror and a load, or two mirrors, from each other.

The lock is a file beside the database, locked as long as the writer lives; the system frees it
when the process dies, however it does. SQLite's own locks hold for one transaction only.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlcache.errors import DatabaseError

_SUFFIX = "-lock"


@contextmanager
def exclusively(path: str) -> Iterator[None]:
    """Be the only process that keeps the content of a database file, within this block.

    Args:
        path: of the database; it need not exist.

    Raises:
        DatabaseError: another process does, or the lock cannot be made.
    """
    name = os.path.realpath(path) + _SUFFIX
    descriptor = _locked(path, name)
    try:
        _sign(path, descriptor)
        yield
    finally:
        os.unlink(name)  # while it is locked: whoever comes next makes a new one
        os.close(descriptor)


def _locked(path: str, name: str) -> int:
    while True:
        try:
            descriptor = os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseError(path, error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(descriptor, name):
                return descriptor
        except BlockingIOError as error:
            pid = os.pread(descriptor, 20, 0).decode(errors="replace")
            os.close(descriptor)
            who = f"process {pid}" if pid else "another process"
            raise DatabaseError(path, f"{who} is writing it; end that first") from error
        os.close(descriptor)  # the one who had it unlinked it in between


def _sign(path: str, descriptor: int) -> None:
    """Write who holds the lock."""
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except OSError as error:  # a full disk
        raise DatabaseError(path, error.strerror or str(error)) from error


def _is(descriptor: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name))
    except FileNotFoundError:
        return False
