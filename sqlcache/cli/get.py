"""`sqlcache get`: objects in kubectl's columns, from a file or a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from sqlcache.cli._ages import Clock, utc_now
from sqlcache.cli._columns import columns_of, format_labels
from sqlcache.cli._fields import mapping, text
from sqlcache.cli._output import (
    Table,
    write,
    write_csv,
    write_list,
    write_object,
    write_table,
    write_yaml,
)
from sqlcache.cli._resources import is_namespaced, plural
from sqlcache.cli._sorting import SortPathError, parse_path, sort_by
from sqlcache.cli._source import (
    namespace_options,
    open_source,
    selector_option,
    source_options,
)
from sqlcache.errors import NotFoundError, SelectorError
from sqlcache.lister import Lister
from sqlcache.objects import ALL_NAMESPACES, Object, Objects, object_name
from sqlcache.selectors import (
    METADATA_FIELDS,
    POD_FIELDS,
    FieldSelector,
    Selector,
    parse_field_selector,
)

_FORMATS = ("table", "wide", "json", "yaml", "name", "csv")
_WITH_LABEL_COLUMNS = ("table", "wide", "csv")


@dataclass(frozen=True)
class _Query:
    """Which objects are wanted, and in what order."""

    resource: str
    names: tuple[str, ...]
    namespace: str
    selector: Selector
    fields: FieldSelector
    sort_path: str | None
    limit: int | None


@dataclass(frozen=True)
class _View:
    """How objects are shown."""

    output: str
    headers: bool
    show_labels: bool
    label_columns: tuple[str, ...]
    namespaces: bool


def _sort_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parse_path(value)
    except SortPathError as error:
        raise click.BadParameter(str(error)) from error
    return value


@click.command(short_help="Show objects, as kubectl get does.")
@click.argument("resource", default="pods", callback=plural)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@source_options
@namespace_options
@selector_option
@click.option(
    "--field-selector",
    metavar="SELECTOR",
    default="",
    help="Field selector, such as 'spec.nodeName=n1,status.phase!=Running'. Default: all objects.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="Form of the output; wide is a table with more columns.",
)
@click.option(
    "--sort-by",
    metavar="JSONPATH",
    callback=_sort_path,
    help="Order by a field, such as .status.startTime. Default: namespace and name.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Show the first N objects only. Default: all.",
)
@click.option("--no-headers", is_flag=True, help="Leave the line of headers out.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option(
    "-L",
    "--label-columns",
    metavar="KEY",
    multiple=True,
    help="Add a column with the value of this label; several times, or keys with commas.",
)
@click.pass_obj
def get(
    clock: Clock | None,
    resource: str,
    names: tuple[str, ...],
    db: str | None,
    dump: str | None,
    namespace: str,
    all_namespaces: bool,
    selector: Selector,
    field_selector: str,
    output: str,
    sort_by: str | None,
    limit: int | None,
    no_headers: bool,
    show_labels: bool,
    label_columns: tuple[str, ...],
) -> None:
    """Show objects, as kubectl get does.

    RESOURCE is a plural name or one of kubectl's short ones; pods if left out. Pods, services and
    nodes have kubectl's columns, all others NAME and AGE. Ages count up to now.

    \b
    Examples:
      sqlcache get pods -l 'app=web,tier in (a,b)' --db sqlite:///cluster.db
      sqlcache get po -A -o wide --sort-by .spec.nodeName --from pods.json.gz
      sqlcache get nodes -L topology.kubernetes.io/zone --from dump/
      kubectl get pods -A -o json | sqlcache get pods -n shop -o name --from -
    """
    if names and all_namespaces:
        raise click.UsageError("objects cannot be named together with -A")
    if names and (not selector.empty or field_selector):
        raise click.UsageError("objects cannot be named together with a selector")
    keys = tuple(key for keys in label_columns for key in keys.split(",") if key)
    if (show_labels or keys) and output not in _WITH_LABEL_COLUMNS:
        raise click.UsageError(f"--show-labels and -L add columns: -o {output} has none")
    namespaced = is_namespaced(resource)
    query = _Query(
        resource,
        names,
        namespace if namespaced and not all_namespaces else ALL_NAMESPACES,
        selector,
        _fields(field_selector, resource),
        sort_by,
        limit,
    )
    view = _View(output, not no_headers, show_labels, keys, all_namespaces and namespaced)
    objects, missing = _find(query, db, dump)
    if objects or output in ("json", "yaml"):
        _show(objects, query, view, (clock or utc_now)())
    elif not missing:
        place = f" in {query.namespace} namespace." if query.namespace else ""
        click.echo(f"No resources found{place}", err=True)
    for error in missing[:-1]:
        click.echo(f"Error: {error}", err=True)
    if missing:
        raise missing[-1]


def _fields(selector: str, resource: str) -> FieldSelector:
    try:
        return parse_field_selector(selector, POD_FIELDS if resource == "pods" else METADATA_FIELDS)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="'--field-selector'") from error


def _find(
    query: _Query, db: str | None, dump: str | None
) -> tuple[Objects, Sequence[NotFoundError]]:
    """Return the objects wanted, and an error for each name that has none."""
    with open_source(db, dump, query.resource) as store:
        lister = Lister(store, query.resource).by_namespace(query.namespace)
        if query.names:
            objects, missing = [], []
            for name in dict.fromkeys(query.names):
                try:
                    objects.append(lister.get(name))
                except NotFoundError as error:
                    missing.append(error)
            return objects, missing
        objects = sorted(lister.list(query.selector), key=object_name)
    if not query.fields.empty:
        objects = [obj for obj in objects if query.fields.matches(obj)]
    if query.sort_path is not None:
        objects = sort_by(objects, query.sort_path)
    return objects[: query.limit], []


def _show(objects: Objects, query: _Query, view: _View, now: datetime) -> None:
    if view.output in ("json", "yaml"):
        one = len(query.names) == 1 and len(objects) == 1
        if view.output == "json":
            write_object(objects[0]) if one else write_list(objects)
        else:
            write_yaml(objects[0] if one else _list(objects))
    elif view.output == "name":
        write("".join(f"{_full_name(obj, query.resource)}\n" for obj in objects))
    else:
        show = write_csv if view.output == "csv" else write_table
        show(_table(objects, query, view, now), headers=view.headers)


def _list(objects: Objects) -> dict[str, Any]:
    metadata = {"resourceVersion": ""}
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": metadata}


def _full_name(obj: Object, resource: str) -> str:
    """Return kubectl's name of an object: "pod/web-0", "deployment.apps/web"."""
    kind, version = text(obj.get("kind")).lower(), text(obj.get("apiVersion"))
    group = version.rpartition("/")[0]
    if not kind:
        kind = resource.removesuffix("s")
    return f"{kind}{f'.{group}' if group else ''}/{object_name(obj).name}"


def _table(objects: Objects, query: _Query, view: _View, now: datetime) -> Table:
    columns = columns_of(query.resource)
    wide = view.output == "wide"
    headers = [
        *(["NAMESPACE"] if view.namespaces else []),
        *columns.headers,
        *(columns.wide_headers if wide else []),
        *(key.rpartition("/")[2].upper() for key in view.label_columns),
        *(["LABELS"] if view.show_labels else []),
    ]
    rows = []
    for obj in objects:
        labels = mapping(obj["metadata"].get("labels"))
        rows.append(
            [
                *([object_name(obj).namespace] if view.namespaces else []),
                *columns.cells(obj, now, wide),
                *(text(labels.get(key)) for key in view.label_columns),
                *([format_labels(labels)] if view.show_labels else []),
            ]
        )
    return Table(headers, rows)
