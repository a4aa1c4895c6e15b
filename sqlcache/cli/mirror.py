"""`sqlcache mirror`: a database file that is kept true to a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import click

from sqlcache.cli._cluster import Cluster, Part, cluster_options, without_managed_fields
from sqlcache.cli._following import Contact, Followed, Inbox, inbox
from sqlcache.cli._lock import exclusively
from sqlcache.cli._mirrored import write_names
from sqlcache.cli._options import (
    FILE_PREFIX,
    database_option,
    field_selector_option,
    labels_option,
    selector_option,
)
from sqlcache.cli._progress import Bar, mirroring, on_terminal
from sqlcache.cli._resources import counted, names_of
from sqlcache.client.discovery import ApiResource
from sqlcache.informer import SharedInformer, SharedInformerFactory
from sqlcache.objects import ALL_NAMESPACES
from sqlcache.selectors import EVERYTHING, Selector
from sqlcache.store import open_store
from sqlcache.store.api import Indexer
from sqlcache.store.labels import LabelPolicy

_BAR_S = 0.1
_LINE_S = 1.0


class _Writes:
    """Sees each object that a store is about to write, as its transform.

    Attributes:
        count: how many there were.
        ended: write no more. A first list is one transaction, which may take a minute; a command
            that ends must not wait for it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ended = False

    def __call__(self, obj: Any) -> Any:
        if self.ended:
            raise SystemExit  # ends the thread that writes, and rolls its transaction back
        self.count += 1
        return obj


@dataclass(frozen=True)
class _Mirrored:
    """A resource that is mirrored."""

    resource: ApiResource
    source: Followed
    total: int | None
    writes: _Writes

    @property
    def name(self) -> str:
        return self.resource.qualified

    def bar(self) -> Bar:
        return Bar(self.name, self.source.listed, self.writes.count, self.total)


@click.command(short_help="Keep a database file true to a cluster.")
@click.argument("resources", metavar="RESOURCE...", nargs=-1, required=True, callback=names_of)
@database_option(
    "Database file, made if it does not exist.", required=True, names=("--backend", "--db")
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default=ALL_NAMESPACES,
    help="Mirror this namespace only. Default: all of them.",
)
@selector_option
@field_selector_option
@labels_option
@cluster_options
def mirror(
    resources: tuple[str, ...],
    db: str,
    namespace: str,
    selector: Selector,
    field_selector: str,
    labels: LabelPolicy | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Keep a database file true to a cluster.

    Lists the resources, then watches them and writes every change, until Ctrl-C. Other processes
    can read the file all the while, also with `sqlcache get`. RESOURCE is a name as kubectl takes
    it; the file may hold any number of them, and keeps each apart.

    Started again, it goes on from where the file stands. When the API server cannot be reached, it
    tries again until it can. A file that can no longer be written ends it.

    \b
    Examples:
      sqlcache mirror pods services --backend sqlite:///cache.db
      sqlcache mirror deploy leases.coordination.k8s.io -n shop --backend sqlite:///cache.db
      sqlcache mirror pods -l app=web --context prod --backend sqlite:////var/cache/web.db
    """
    part = Part(namespace, str(selector), field_selector)
    with inbox() as messages, closing(Cluster(kubeconfig, context)) as cluster:
        mirrored = _mirrored(cluster, resources, part, messages)
        with exclusively(db), _informers(db, labels, mirrored, messages) as informers:
            _follow(db, mirrored, informers, messages)


def _mirrored(
    cluster: Cluster, names: Iterable[str], part: Part, messages: Inbox
) -> list[_Mirrored]:
    contact = Contact(messages.say)
    found, identity = cluster.find(names), cluster.identity()
    mirrored = []
    for resource in found:
        list_watch = cluster.list_watch(resource, part)
        total = cluster.count(list_watch)
        name = resource.qualified
        source = Followed(list_watch, name, cluster, contact, messages.fail, identity)
        mirrored.append(_Mirrored(resource, source, total, _Writes()))
    return mirrored


@contextmanager
def _informers(
    db: str, labels: LabelPolicy | None, mirrored: Sequence[_Mirrored], messages: Inbox
) -> Iterator[dict[str, SharedInformer]]:
    """Run an informer for each resource; their stores are one file."""
    backend = f"{FILE_PREFIX}{db}"
    by_name = {each.name: each for each in mirrored}

    def opened(name: str) -> Indexer:
        writes = by_name[name].writes
        return open_store(backend, name, hot_objects=0, transform=writes, labels=labels)

    with SharedInformerFactory(
        lambda name: by_name[name].source,
        store=opened,
        transform=without_managed_fields,
        on_store_error=messages.fail,
    ) as factory:
        informers = {
            each.name: factory.informer(each.name, on_watch_error=each.source.failed)
            for each in mirrored
        }
        write_names(backend, (each.resource for each in mirrored))
        try:
            factory.start()
            yield informers
        finally:
            for each in mirrored:
                each.writes.ended = True


def _follow(
    db: str, mirrored: Sequence[_Mirrored], informers: dict[str, SharedInformer], messages: Inbox
) -> None:
    """Say how it goes, until somebody fails or a signal comes."""
    started, on_a_terminal = time.monotonic(), on_terminal()
    with mirroring(informers) as report:
        while not all(informer.has_synced() for informer in informers.values()):
            report([each.bar() for each in mirrored], "")
            messages.take(_BAR_S)
        seconds = time.monotonic() - started
        counts = _counts(informers)
        click.echo(f"Mirroring {counts} into {db}, in sync after {seconds:.1f} s", err=True)
        while True:
            if on_a_terminal:
                report([], f"{db}: {_counts(informers)}; {_news(mirrored)}")
            messages.take(_LINE_S if on_a_terminal else None)


def _counts(informers: dict[str, SharedInformer]) -> str:
    counts = [
        counted(informer.store.count(ALL_NAMESPACES, EVERYTHING), name)
        for name, informer in informers.items()
    ]
    return ", ".join(counts)


def _news(mirrored: Sequence[_Mirrored]) -> str:
    """Return whether the API server is in contact, and when it last had something to say."""
    lost_for_s = mirrored[0].source.contact.lost_for_s()
    if lost_for_s is not None:
        return f"out of contact with the API server for {lost_for_s:.0f} s"
    heard = max(each.source.heard_at for each in mirrored)
    return f"last event {time.monotonic() - heard:.0f} s ago" if heard else "no event yet"
