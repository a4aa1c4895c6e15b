"""Where a command finds objects: a database file, a dump, or a cluster.

`--db` is a file that `sqlcache load` or `sqlcache mirror` made, `--from` a dump, `--kubeconfig` or
`--context` an API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from sqlcache.cli._cluster import Cluster, Part, cluster_options, logs_in_words
from sqlcache.cli._mirrored import naming_in
from sqlcache.cli._options import FILE_PREFIX, database_option
from sqlcache.cli._resources import Naming, usual_naming
from sqlcache.errors import DatabaseError
from sqlcache.objects import ALL_NAMESPACES, Object
from sqlcache.store import open_store
from sqlcache.store.api import Indexer

DEFAULT_NAMESPACE = "default"


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--db`, `--from`, `--kubeconfig`, `--context`; the command gets a `Source` for them."""

    @wraps(command)
    def with_source(
        *args: Any,
        db: str | None,
        dump: str | None,
        kubeconfig: str | None,
        context: str | None,
        **options: Any,
    ) -> Any:
        return command(*args, source=Source(db, dump, kubeconfig, context), **options)

    file = database_option(
        "Database file to read; `sqlcache mirror` may be writing it.", required=False
    )
    dump = click.option(
        "--from",
        "dump",
        metavar="DUMP",
        help="Dump to read into memory instead: a file, a directory, or - for standard input.",
    )
    return file(dump(cluster_options(with_source)))


@dataclass(frozen=True)
class Wanted:
    """What a command wants of a source: an API server selects it, others hold all anyway.

    Attributes:
        namespace: None for the source's own default.
        all_namespaces: whatever the namespace is.
        labels: selects.
        fields: a field selector.
    """

    namespace: str | None = None
    all_namespaces: bool = False
    labels: str = ""
    fields: str = ""


class Found(NamedTuple):
    """A resource in an open source.

    Attributes:
        store: holds its objects, and those that were not wanted if the source had them.
        resource: its names.
        namespace: to look in; "" for all.
    """

    store: Indexer
    resource: Naming
    namespace: str


@dataclass(frozen=True)
class Source:
    """What the options say of where objects are.

    Attributes:
        db: path of a database file.
        dump: path of a dump.
        kubeconfig: path of a kubeconfig file.
        context: name of a context.
    """

    db: str | None
    dump: str | None
    kubeconfig: str | None
    context: str | None

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster, which selects what is wanted."""
        return self.kubeconfig is not None or self.context is not None

    @contextmanager
    def open(self, name: str, wanted: Wanted) -> Iterator[Found]:
        """Give a resource in the source, by a name of it, until the end of the block.

        Raises:
            click.UsageError: the options name no source, or several.
            DatabaseError: the file does not exist, or cannot be opened.
            DumpError, OSError: the dump cannot be read.
            ClusterError, KubeConfigError, UnknownResourceError: the cluster cannot be asked.
        """
        given = (self.db is not None) + (self.dump is not None) + self.is_cluster
        if given != 1:
            wanted_one = "--db sqlite:///PATH, --from DUMP, or --context (or --kubeconfig)"
            raise click.UsageError(
                f"give only one of {wanted_one}" if given else f"give {wanted_one}"
            )
        if self.is_cluster:
            with (
                logs_in_words(_warn),
                closing(Cluster(self.kubeconfig, self.context)) as cluster,
                _listed(cluster, name, wanted) as found,
            ):
                yield found
            return
        if self.dump is not None:
            naming = usual_naming(name)
            store = _loaded(self.dump, naming.name)
        else:
            backend = f"{FILE_PREFIX}{_existing(str(self.db))}"
            naming = naming_in(backend, name)
            store = open_store(backend, naming.name, hot_objects=0)
        with store:
            inside = wanted.namespace or DEFAULT_NAMESPACE
            yield Found(store, naming, _namespace(wanted, naming.namespaced, inside))


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _namespace(wanted: Wanted, namespaced: bool, inside: str) -> str:
    return inside if namespaced and not wanted.all_namespaces else ALL_NAMESPACES


def _existing(path: str) -> str:
    if not Path(path).exists():
        raise DatabaseError(path, "no such file; `sqlcache load` or `sqlcache mirror` makes one")
    return path


@contextmanager
def _listed(cluster: Cluster, name: str, wanted: Wanted) -> Iterator[Found]:
    (resource,) = cluster.find([name])
    inside = wanted.namespace or cluster.namespace
    namespace = _namespace(wanted, resource.namespaced, inside)
    part = Part(namespace, wanted.labels, wanted.fields)
    objects = cluster.objects(resource, cluster.list_watch(resource, part))
    with _filled(resource.qualified, objects) as store:
        yield Found(store, Naming(resource.qualified, resource.namespaced), namespace)


def _loaded(dump: str, resource: str) -> Indexer:
    from sqlcache.dumps import DumpReader

    return _filled(resource, DumpReader([dump], resource))


def _filled(resource: str, objects: Iterable[Object]) -> Indexer:
    """Return a store in memory that holds objects; they are read one by one."""
    store = open_store("sqlite", resource, objects="packed", hot_objects=0)
    try:
        store.replace(objects, "")
    except BaseException:
        store.close()
        raise
    return store
