"""YAML documents, each read whole, as JSON would have them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sqlcache.dumps._content import Content
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.errors import DumpError, shown

_MAX_NODES = 1_000_000  # in one object: aliases can make a short text enormous


def yaml_documents(name: str, content: Content) -> Iterator[Any]:
    """Yield each document: a Mapping, an Array or a scalar."""
    try:
        import yaml
    except ImportError as error:
        reason = "reading YAML needs PyYAML: pip install 'sqlcache[yaml]'"
        raise DumpError(name, "", reason) from error
    try:
        for document in yaml.load_all(content, _yaml_loader()):
            yield _document(name, document)
    except DumpError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise DumpError(name, where, f"not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        raise DumpError(name, f"position {error.position}", f"not YAML: {error.reason}") from error
    # PyYAML's constructors let these through for values that do not fit an explicit tag.
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _inexpressible(name, error) from error


def _inexpressible(name: str, error: Exception) -> DumpError:
    return DumpError(name, "", f"not YAML that JSON can express: {error}")


def _yaml_loader() -> Any:
    """Return PyYAML's safe loader, the one in C if there, without timestamps and `=`.

    A YAML timestamp would become a datetime; Kubernetes knows it as a string.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    unwanted = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
    resolvers = {
        first: [(tag, pattern) for tag, pattern in entries if tag not in unwanted]
        for first, entries in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


def _document(name: str, document: Any) -> Any:
    def plain(value: Any) -> Any:
        try:
            return _plain(value)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _inexpressible(name, error) from error

    def field(key: Any, value: Any) -> tuple[str, Any]:
        return str(key), Array(map(plain, value)) if isinstance(value, list) else plain(value)

    if isinstance(document, list):
        return Array(map(plain, document))
    if isinstance(document, dict):
        return Mapping(field(key, value) for key, value in document.items())
    return document


def _plain(value: Any) -> Any:
    """Return a YAML value as JSON has it: a copy without shared parts, all keys strings.

    Raises:
        ValueError, ArithmeticError, RecursionError: JSON cannot express it, or it is enormous.
    """
    left = _MAX_NODES

    def copy(value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"an object of more than {_MAX_NODES} values")
        if isinstance(value, dict):
            return {_plain_key(key): copy(part) for key, part in value.items()}
        if isinstance(value, list):
            return [copy(part) for part in value]
        return _plain_scalar(value)

    return copy(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, str):
        value.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**64 else float(value)  # as orjson reads it
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"a value of type {type(value).__name__}: {shown(value)}")


def _plain_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (str, int, float)):
        return str(key)
    raise ValueError(f"a field name of type {type(key).__name__}: {shown(key)}")
