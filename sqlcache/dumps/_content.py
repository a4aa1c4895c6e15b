"""Files on disk or standard input as decompressed bytes, with errors that name the file."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from sqlcache.errors import DumpError

STDIN = "-"
CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_YAML_SUFFIXES = (".yaml", ".yml")


def files_of(source: str) -> list[str]:
    """Return the files that a source stands for: itself, or the dumps below a directory, sorted.

    Raises:
        OSError: it does not exist, or cannot be listed.
        DumpError: it is a directory without dumps.
    """
    path = Path(source)
    if source == STDIN:
        return [source]
    if not path.is_dir():
        path.stat()  # a missing file is an error now, not after hours with the ones before it
        return [source]
    below = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(source, onerror=_raise)
        for name in names
        if format_of(name) is not None
    ]
    if not below:
        suffixes = " ".join((*_JSON_SUFFIXES, *_YAML_SUFFIXES))
        raise DumpError(source, "", f"no dumps in this directory ({suffixes}, with or without .gz)")
    return sorted(below)


def _raise(error: OSError) -> NoReturn:
    raise error


def format_of(name: str) -> Literal["JSON", "YAML"] | None:
    """Return the format that a file's name promises, if it does."""
    suffix = Path(name.lower().removesuffix(".gz")).suffix
    if suffix in _JSON_SUFFIXES:
        return "JSON"
    return "YAML" if suffix in _YAML_SUFFIXES else None


def size_bytes(path: str) -> int | None:
    """Return a file's size on disk, None if it is standard input or no regular file."""
    return os.path.getsize(path) if path != STDIN and os.path.isfile(path) else None


def display_name(path: str) -> str:
    """Return what messages call a file."""
    return "stdin" if path == STDIN else path


class _Counted(io.RawIOBase):
    """A file that counts the bytes read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        self.count += len(found)
        return len(found)


class Content:
    """The bytes of a file, decompressed. Errors while reading name the file."""

    def __init__(self, name: str, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._name, self._on_bytes, self._reported = name, on_bytes, 0
        self._raw = _Counted(file)
        self._file: io.BufferedReader | gzip.GzipFile = io.BufferedReader(self._raw, CHUNK_BYTES)
        if self.peek().startswith(_GZIP_MAGIC):
            self._file = gzip.GzipFile(fileobj=self._file)

    def peek(self) -> bytes:
        """Return the next bytes, which `read` gives again; empty at the end of the file."""
        with self._named():
            return self._file.peek(len(_GZIP_MAGIC))

    def read(self, count: int = -1) -> bytes:
        """Return that many bytes, fewer at the end of the file; all of them for -1."""
        with self._named():
            found = self._file.read(count)
        self._on_bytes(self._raw.count - self._reported)
        self._reported = self._raw.count
        return found

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DumpError(self._name, "", f"broken gzip data: {error}") from error
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input, which stays open afterwards."""
    if path != STDIN:
        with open(path, "rb", buffering=0) as file:
            yield file
    elif sys.stdin is None:
        raise DumpError(display_name(path), "", "is closed")
    else:
        yield sys.stdin.buffer
