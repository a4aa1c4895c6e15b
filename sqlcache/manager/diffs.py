"""A write as a unified diff of YAML, as `kubectl diff` shows it.

`metadata.managedFields` is left out; a kind that only one side names is taken to be the other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import yaml

from sqlcache.manager.dryrun import Write
from sqlcache.objects import Object

_CONTEXT_LINES = 3
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def title(write: Write) -> str:
    """Return what would be done to what: `update endpoints shop/web`."""
    resource = write.resource
    kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    key = f"{write.namespace}/{write.name}" if write.namespace else write.name
    return f"{write.verb} {kind} {key}"


def diff(write: Write) -> str:
    """Return the title of a write and what it changes, a line each; the title alone if nothing."""
    before, after = _shown(write.before, write.after), _shown(write.after, write.before)
    lines = unified_diff(
        list(_yaml(before)), list(_yaml(after)), "on the server", "would be", n=_CONTEXT_LINES
    )
    return "".join([f"# {title(write)}\n", *lines])


def _yaml(obj: Object | None) -> Iterator[str]:
    if obj is not None:
        text: str = yaml.dump(
            obj, Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=1 << 30
        )
        yield from text.splitlines(keepends=True)


def _shown(obj: Object | None, other: Object | None) -> Object | None:
    if obj is None:
        return None
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    names = {name: (other or {}).get(name) for name in ("apiVersion", "kind")}
    return {**{name: text for name, text in names.items() if text}, **obj, "metadata": meta}
