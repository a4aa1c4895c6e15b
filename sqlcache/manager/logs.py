"""Log lines of a process that runs controllers, on stderr, as text or as JSON.

    2026-03-01T12:00:00.123Z INFO sqlcache.manager.election: lease kube-system/mine: released
    {"ts":"2026-03-01T12:00:00.123Z","level":"INFO","logger":"…","msg":"…","error":"…"}

Promises
- One record is one line, whatever is in it, so that no object can forge a second one.
- What an API server or a database may do wrong is told in words; the traceback of anything else is
  in the field `stack`, or in text behind the message, with its line feeds escaped.
- Of other packages only warnings are shown. Nothing here logs headers, bodies or configuration.
"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, TextIO, get_args

import orjson

from sqlcache.errors import SqlcacheError

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)


@contextmanager
def logging_to(stream: TextIO, log_format: LogFormat) -> Iterator[None]:
    """Have everything logged at INFO or above by this package written, within the block.

    Args:
        stream: where to.
        log_format: of a line.
    """
    root, ours = logging.getLogger(), logging.getLogger("sqlcache")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLine() if log_format == "json" else _TextLine())
    level = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            # Somebody chose insecure-skip-tls-verify; a line for each request is no help.
            warnings.filterwarnings("ignore", message="Unverified HTTPS request")
            yield
    finally:
        ours.setLevel(level)
        root.removeHandler(handler)


class _TextLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"]
        if error := _error(record):
            parts += [error, _stack(record)]
        text = ": ".join(filter(None, parts))
        return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            "error": _error(record),
            "stack": _stack(record),
        }
        line = {name: _encodable(text) for name, text in fields.items() if text}
        return orjson.dumps(line).decode()


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def _error(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return "" if error is None else str(error) or type(error).__name__


def _stack(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if error is None or isinstance(error, SqlcacheError | OSError):
        return ""
    return "".join(traceback.format_exception(error))
