"""Make the schema of the built-in kinds from the models of the official client.

    python -m tests.apiserver_schema > sqlcache/testing/apiserver/schema.json

Run it when the server is to serve the fields of a newer Kubernetes.
"""

from __future__ import annotations

import json
import re
import sys

from kubernetes.client import models

KINDS = {
    "Pod": "V1Pod",
    "Service": "V1Service",
    "Node": "V1Node",
    "Namespace": "V1Namespace",
    "Endpoints": "V1Endpoints",
    "EndpointSlice": "V1EndpointSlice",
    "Event": "CoreV1Event",
    "Lease": "V1Lease",
}
Schema = dict[str, dict[str, str]]


def written(kind: str) -> str:
    """Return a type of the models as the schema writes it: `[]` and `{}` before the inner type."""
    if inner := re.fullmatch(r"[lL]ist\[(.*)\]", kind):
        return f"[]{written(inner[1])}"
    if inner := re.fullmatch(r"[dD]ict[\[(]str, (.*)[\])]", kind):
        return f"{{}}{written(inner[1])}"
    return kind


def collect(schema: Schema, name: str) -> None:
    if name in schema or not hasattr(models, name):
        return
    model = getattr(models, name)
    types = {
        field: written(model.openapi_types[attr]) for attr, field in model.attribute_map.items()
    }
    schema[name] = dict(sorted(types.items()))
    for kind in types.values():
        collect(schema, kind.removeprefix("[]").removeprefix("{}"))


def main() -> None:
    schema: Schema = {}
    for model in [*KINDS.values(), "V1DeleteOptions"]:
        collect(schema, model)
    named = {name: schema.pop(model) for name, model in KINDS.items()}
    json.dump({**named, **dict(sorted(schema.items()))}, sys.stdout, indent=1)
    print()  # noqa: T201 (a program's output)


if __name__ == "__main__":
    main()
