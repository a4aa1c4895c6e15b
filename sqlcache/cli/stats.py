"""`sqlcache stats`: what a store holds, and where label cardinality hurts."""

from __future__ import annotations

import click

from sqlcache.cli._options import resource_option
from sqlcache.cli._output import Table, write, write_csv, write_json, write_table
from sqlcache.cli._source import Source, Wanted, source_options
from sqlcache.store.api import StoreStats

_HEADERS = ("LABEL KEY", "DISTINCT", "OBJECTS", "BYTES", "UNINDEXED", "SAVED")


@click.command(short_help="Tell what a store holds and which label keys cost most.")
@source_options
@resource_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Form of the output; csv has the label keys only.",
)
def stats(source: Source, resource: str, output: str) -> None:
    """Tell what a store holds and which label keys cost most.

    One line a label key, the most expensive first. DISTINCT counts (namespace, value) pairs: a key
    with nearly as many of them as OBJECTS, such as a pod's own name, is what makes an index of
    labels grow. BYTES are those of its values and postings, estimated. UNINDEXED tells why a key
    has no index, SAVED how many bytes that saves.

    \b
    Examples:
      sqlcache stats --db sqlite:///cluster.db
      sqlcache stats --from pods.json -o csv
    """
    with source.open(resource, Wanted(all_namespaces=True)) as there:
        found = there.store.stats()
    if output == "json":
        write_json(found)
        return
    keys = _label_keys(found)
    if output == "csv":
        write_csv(keys)
    else:
        write(_summary(found))
        write_table(keys)


def _label_keys(found: StoreStats) -> Table:
    rows = [
        [
            stats.key,
            str(stats.distinct),
            str(stats.objects),
            str(stats.bytes),
            stats.unindexed or "-",
            str(stats.saved_bytes),
        ]
        for stats in found.label_keys
    ]
    return Table(_HEADERS, rows)


def _summary(found: StoreStats) -> str:
    facts = {
        "Backend": found.backend,
        "Resource": found.resource,
        "Resource version": found.resource_version or "<none>",
        "Objects": str(found.objects),
        "Namespaces": str(found.namespaces),
        "Label keys": str(len(found.label_keys)),
    }
    if found.database_bytes is not None:
        facts["Database"] = f"{found.database_bytes} bytes"
    for body in found.bodies:
        if body.dictionary is None:
            facts["Plain objects"] = f"{body.objects}, {body.bytes} bytes"
        else:
            facts[f"Dict. {body.dictionary}"] = (
                f"{body.objects} objects, {body.bytes} bytes, {body.plain_bytes} as JSON"
            )
    return "".join(f"{f'{name}:':<18}{value}\n" for name, value in facts.items()) + "\n"
