"""`sqlcache get`: objects in kubectl's columns, from a file or a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from sqlcache.cli._ages import Clock, utc_now
from sqlcache.cli._fields import text
from sqlcache.cli._options import field_selector_option, namespace_options, selector_option
from sqlcache.cli._output import (
    Table,
    write,
    write_csv,
    write_list,
    write_object,
    write_table,
    write_yaml,
)
from sqlcache.cli._resources import name_of, usual_naming
from sqlcache.cli._sorting import SortPathError, parse_path, sort_by
from sqlcache.cli._source import Found, Source, Wanted, source_options
from sqlcache.cli._view import View, ViewOptions, view_options
from sqlcache.errors import NotFoundError, SelectorError
from sqlcache.lister import Lister
from sqlcache.objects import Object, Objects, object_name
from sqlcache.selectors import (
    METADATA_FIELDS,
    POD_FIELDS,
    FieldSelector,
    Selector,
    parse_field_selector,
)

_FORMATS = ("table", "wide", "json", "yaml", "name", "csv")


@dataclass(frozen=True)
class _Query:
    """Which objects are wanted, and in what order."""

    names: tuple[str, ...]
    selector: Selector
    fields: FieldSelector
    sort_path: str | None
    limit: int | None


def _sort_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parse_path(value)
    except SortPathError as error:
        raise click.BadParameter(str(error)) from error
    return value


@click.command(short_help="Show objects, as kubectl get does.")
@click.argument("resource", default="pods", callback=name_of)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@source_options
@namespace_options
@selector_option
@field_selector_option
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
@view_options
@click.pass_obj
def get(
    clock: Clock | None,
    resource: str,
    names: tuple[str, ...],
    source: Source,
    namespace: str | None,
    all_namespaces: bool,
    selector: Selector,
    field_selector: str,
    output: str,
    sort_by: str | None,
    limit: int | None,
    view: ViewOptions,
) -> None:
    """Show objects, as kubectl get does.

    RESOURCE is a name as kubectl takes it; pods if left out. Pods, services and nodes have
    kubectl's columns, all others NAME and AGE. Ages count up to now.

    \b
    Examples:
      sqlcache get pods -l 'app=web,tier in (a,b)' --db sqlite:///cluster.db
      sqlcache get po -A -o wide --sort-by .spec.nodeName --from pods.json.gz
      sqlcache get nodes -L topology.kubernetes.io/zone --from dump/
      kubectl get pods -A -o json | sqlcache get pods -n shop -o name --from -
      sqlcache get deploy -A --sort-by .metadata.creationTimestamp --context prod
    """
    if names and all_namespaces:
        raise click.UsageError("objects cannot be named together with -A")
    if names and (not selector.empty or field_selector):
        raise click.UsageError("objects cannot be named together with a selector")
    view.check(output)
    # A cluster selects by fields itself, and by more of them.
    fields = _fields("" if source.is_cluster else field_selector, usual_naming(resource).name)
    query = _Query(names, selector, fields, sort_by, limit)
    one = f"metadata.name={names[0]}" if len(names) == 1 else ""
    wanted = Wanted(namespace, all_namespaces, str(selector), one or field_selector)
    with source.open(resource, wanted) as found:
        objects, missing = _find(query, found)
    name, namespaces = found.resource.name, all_namespaces and found.resource.namespaced
    if objects or output in ("json", "yaml"):
        columns = View(name, view, output == "wide", namespaces)
        _show(objects, query, columns, output, clock or utc_now)
    elif not missing:
        place = f" in {found.namespace} namespace." if found.namespace else ""
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


def _find(query: _Query, found: Found) -> tuple[Objects, Sequence[NotFoundError]]:
    """Return the objects wanted, and an error for each name that has none."""
    lister = Lister(found.store, found.resource.name).by_namespace(found.namespace)
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


def _show(objects: Objects, query: _Query, view: View, output: str, clock: Clock) -> None:
    if output in ("json", "yaml"):
        one = len(query.names) == 1 and len(objects) == 1
        if output == "json":
            write_object(objects[0]) if one else write_list(objects)
        else:
            write_yaml(objects[0] if one else _list(objects))
    elif output == "name":
        write("".join(f"{_full_name(obj, view.resource)}\n" for obj in objects))
    else:
        now = clock()
        table = Table(view.headers(), [view.row(obj, now) for obj in objects])
        show = write_csv if output == "csv" else write_table
        show(table, headers=view.options.headers)


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
