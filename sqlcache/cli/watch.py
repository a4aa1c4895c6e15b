"""`sqlcache watch`: objects of a cluster, and every change of them as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from typing import TypeAlias

import click

from sqlcache.cli._ages import Clock, utc_now
from sqlcache.cli._cluster import Cluster, Part, cluster_options, without_managed_fields
from sqlcache.cli._following import Change, Contact, Followed, Inbox, inbox
from sqlcache.cli._options import field_selector_option, namespace_options, selector_option
from sqlcache.cli._output import TableWriter, flush, reader_is_gone, write_json_line
from sqlcache.cli._resources import name_of
from sqlcache.cli._view import View, ViewOptions, view_options
from sqlcache.client.discovery import ApiResource
from sqlcache.errors import NotFoundError
from sqlcache.informer import SharedInformer
from sqlcache.informer.handlers import Registration
from sqlcache.objects import object_name
from sqlcache.selectors import Selector
from sqlcache.store import open_store

_EVENT_CHARS = len("MODIFIED")  # the column is as wide from the start
_SYNC_POLL_S = 0.05
_IDLE_S = 1.0  # how long it may take to notice that nobody reads the output


@click.command(short_help="Show objects of a cluster and every change, as kubectl get -w.")
@click.argument("resource", default="pods", callback=name_of)
@click.argument("name", required=False)
@namespace_options
@selector_option
@field_selector_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="Form of the output; json is one line for each event.",
)
@click.option(
    "--output-watch-events",
    is_flag=True,
    help="Begin each row with ADDED, MODIFIED or DELETED; json always has it.",
)
@view_options
@cluster_options
@click.pass_obj
def watch(
    clock: Clock | None,
    resource: str,
    name: str | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: Selector,
    field_selector: str,
    output: str,
    output_watch_events: bool,
    view: ViewOptions,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show objects of a cluster and every change, as kubectl get -w.

    First the objects there are, by namespace and name; then a row, or a line of JSON, for each that
    is added, changes or is deleted, until Ctrl-C. When the API server cannot be reached, or has
    forgotten where the watch stood, nothing is lost but what came and went meanwhile.

    \b
    Examples:
      sqlcache watch pods -l app=web -n shop
      sqlcache watch deploy -A --output-watch-events --context prod
      sqlcache watch pods web-1 -o json
    """
    view.check(output)
    if name is not None and all_namespaces:
        raise click.UsageError("objects cannot be named together with -A")
    if name is not None and (not selector.empty or field_selector):
        raise click.UsageError("objects cannot be named together with a selector")
    fields = f"metadata.name={name}" if name is not None else field_selector
    with inbox() as changes, closing(Cluster(kubeconfig, context)) as cluster:
        (found,) = cluster.find([resource])
        inside = "" if all_namespaces else namespace or cluster.namespace
        part = Part(inside, str(selector), fields)
        columns = View(found.qualified, view, output == "wide", all_namespaces and found.namespaced)
        show = (
            _show_json
            if output == "json"
            else _table(columns, clock or utc_now, events=output_watch_events)
        )
        with ExitStack() as stack:
            registration = _followed(stack, changes, cluster, found, part)
            _show(changes, registration, show, NotFoundError(found.qualified, name or ""))


def _followed(
    stack: ExitStack, changes: Inbox, cluster: Cluster, resource: ApiResource, part: Part
) -> Registration:
    """Start an informer, to be stopped by the stack, whose changes go into the inbox."""
    list_watch = cluster.list_watch(resource, part)
    cluster.count(list_watch)  # what is refused is refused before anything is shown
    name = resource.qualified
    followed = Followed(list_watch, name, cluster, Contact(changes.say), changes.fail)
    store = stack.enter_context(open_store("sqlite", name, objects="packed", hot_objects=0))
    informer = SharedInformer(
        followed,
        store,
        name=name,
        description=name,
        transform=without_managed_fields,
        on_watch_error=followed.failed,
    )
    registration = informer.add_handler(changes)
    stack.callback(informer.stop)
    informer.start()
    return registration


def _show(changes: Inbox, registration: Registration, show: _Show, missing: NotFoundError) -> None:
    """Show what is there, then what happens, for ever.

    Raises:
        NotFoundError: an object was named that is not there.
        BrokenPipeError: nobody reads the output any more.
    """
    there: list[Change] = []
    while not registration.has_synced():
        there += changes.take(_SYNC_POLL_S)
    there += changes.take(0)
    if missing.name and not there:
        raise missing
    there.sort(key=lambda change: (0, object_name(change.obj)) if change.initial else (1,))
    while True:
        if there:
            show(there)
            flush()
        elif reader_is_gone():
            raise BrokenPipeError
        there = changes.take(_IDLE_S)


_Show: TypeAlias = Callable[[Iterable[Change]], None]


def _show_json(changes: Iterable[Change]) -> None:
    for change in changes:
        write_json_line({"type": change.type, "object": change.obj})


def _table(view: View, clock: Clock, *, events: bool) -> _Show:
    headers = [*([f"{'EVENT':<{_EVENT_CHARS}}"] if events else []), *view.headers()]
    table = TableWriter(headers, show_headers=view.options.headers)

    def show(changes: Iterable[Change]) -> None:
        now = clock()
        table.write(
            [*([change.type] if events else []), *view.row(change.obj, now)] for change in changes
        )

    return show
