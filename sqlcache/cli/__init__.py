"""The command line: what `sqlcache` and `python -m sqlcache` run.

One module a command, imported when it is called. They share how they end (_errors), what they
print (_output, _columns) and where objects come from (_source).

Promises
- Data to stdout; progress, messages and errors to stderr.
- Exit codes as in _errors; a traceback is a bug.
"""

from __future__ import annotations

import click

from sqlcache import __version__
from sqlcache.cli._group import CommandGroup

SUMMARIES = {
    "load": "Load cluster dumps into a database file.",
    "mirror": "Keep a database file true to a cluster.",
    "get": "Show objects, as kubectl get does.",
    "watch": "Show objects of a cluster and every change, as kubectl get -w.",
    "run": "Run controllers on a cluster.",
    "explain": "Tell how a label selector is answered.",
    "stats": "Tell what a store holds and which label keys cost most.",
    "migrate": "Bring a database file to another schema version.",
    "demo": "Show both controllers at work on a backend, without a cluster.",
    "bench": "Compare the backends on synthetic pods or on a dump.",
}


@click.group(
    cls=CommandGroup,
    package=__name__,
    summaries=SUMMARIES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="sqlcache")
def main() -> None:
    """An indexed cache of Kubernetes objects.

    Load what kubectl dumped, or mirror a cluster, then ask with label selectors:

    \b
      kubectl get pods -A -o json > pods.json
      sqlcache load pods.json --db sqlite:///cluster.db
      sqlcache mirror pods services --backend sqlite:///cluster.db
      sqlcache get pods -A -l 'app=web,tier in (a,b),!canary' --db sqlite:///cluster.db

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
