"""`sqlcache load`: dumps into a database file, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import click

from sqlcache.cli._errors import hold_signals
from sqlcache.cli._lock import exclusively
from sqlcache.cli._options import FILE_PREFIX, database_option, labels_option, resource_option
from sqlcache.cli._progress import loading
from sqlcache.cli._resources import counted, usual_naming
from sqlcache.dumps import DumpReader
from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.store.labels import LabelPolicy


class Loaded(NamedTuple):
    """What a load has done.

    Attributes:
        read: number of objects in the dumps.
        kept: number of objects in the file now.
        passed_over: number of objects of other resources in the dumps.
        size_bytes: size of the dumps as read.
        seconds: how long it took.
    """

    read: int
    kept: int
    passed_over: int
    size_bytes: int
    seconds: float


@click.command(short_help="Load cluster dumps into a database file.")
@click.argument("dumps", metavar="DUMP...", nargs=-1, required=True)
@database_option("Database file, made if it does not exist.", required=True)
@resource_option
@labels_option
def load(dumps: tuple[str, ...], db: str, resource: str, labels: LabelPolicy | None) -> None:
    """Load cluster dumps into a database file.

    Makes the file hold exactly the objects of the dumps, taken together; of several with the same
    namespace and name, the last. Other resources in the file stay.

    A DUMP is what `kubectl get ... -o json` or `-o yaml` writes, plain or gzipped, a directory of
    such files, or - for standard input. Objects of other resources in it are passed over.

    All or nothing: a load that fails or is interrupted leaves the content as it was; the summary
    line on stderr means that it is replaced. Other processes can read the file meanwhile. The
    resourceVersion is left empty, so an informer that opens the file lists anew instead of
    trusting an old dump.

    \b
    Examples:
      kubectl get pods -A -o json | sqlcache load - --db sqlite:///cluster.db
      sqlcache load monday.json.gz tuesday/ --db sqlite:///cluster.db
      sqlcache load dump.json --resource services --db sqlite:///cluster.db
    """
    resource = usual_naming(resource).name
    loaded = _load(dumps, db, resource, labels)
    click.echo(_summary(loaded, db, resource), err=True)


def _load(dumps: tuple[str, ...], db: str, resource: str, labels: LabelPolicy | None) -> Loaded:
    started = time.monotonic()
    size_bytes = 0

    def on_bytes(count: int) -> None:
        nonlocal size_bytes
        size_bytes += count
        show(count, reader.objects)

    reader = DumpReader(dumps, resource, on_bytes=on_bytes)
    with loading(reader.total_bytes) as show:
        objects = iter(reader)
        # The first object before the file: most wrong input shows before there is a file at all.
        first = list(islice(objects, 1))
        backend = f"{FILE_PREFIX}{db}"
        with (
            exclusively(db),
            open_store(backend, resource, hot_objects=0, labels=labels) as store,
        ):
            store.replace(_to_the_end(chain(first, objects)), "")
            kept = store.count("", "")
    seconds = time.monotonic() - started
    return Loaded(reader.objects, kept, reader.others.total(), size_bytes, seconds)


def _to_the_end(objects: Iterable[Object]) -> Iterator[Object]:
    yield from objects
    # What is left is to commit and to close. A signal in between would make the command report
    # failure of a load that has happened.
    hold_signals()


def _summary(loaded: Loaded, db: str, resource: str) -> str:
    size_mb = loaded.size_bytes / 1e6
    notes = []
    if loaded.read != loaded.kept:
        notes.append(f"{loaded.read - loaded.kept} came more than once")
    if loaded.passed_over:
        notes.append(f"passed over {loaded.passed_over} of other resources")
    noted = f" ({', '.join(notes)})" if notes else ""
    return (
        f"Loaded {counted(loaded.kept, resource)}{noted} from {size_mb:.1f} MB"
        f" into {db} in {loaded.seconds:.1f} s"
    )
