"""`sqlcache run`: controllers on a cluster.

Elsewhere: what a manager is made of (sqlcache.manager).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import click

from sqlcache.cli._cluster import Cluster, Part, cluster_options
from sqlcache.cli._errors import FAILED
from sqlcache.cli._lock import exclusively
from sqlcache.cli._options import backend_option, labels_option, path_in, separated
from sqlcache.cli._output import flush, some, write, write_json_line
from sqlcache.client import ListWatch
from sqlcache.controllers.controller import WORKERS
from sqlcache.controllers.events import EventRecorder
from sqlcache.errors import SqlcacheError
from sqlcache.informer import SharedInformerFactory, strip_managed_fields
from sqlcache.manager import HttpEndpoints, LeaderElector, Manager, identity, stop_on_signals
from sqlcache.manager.catalog import CONTROLLERS, RESOURCES
from sqlcache.manager.dryrun import DryRunObjects, Write, first_pass
from sqlcache.manager.election import RENEW_DEADLINE_S
from sqlcache.manager.interpreter import collector_off, tuned_interpreter
from sqlcache.manager.logs import FORMATS, LogFormat, logging_to
from sqlcache.objects import ALL_NAMESPACES
from sqlcache.store import open_store
from sqlcache.store.api import Indexer
from sqlcache.store.labels import LabelPolicy

_LOG = logging.getLogger(__name__)

_LISTEN = "127.0.0.1:8080"
_LEASE = "sqlcache-run"
_LAST_PORT = 65535
_MOST_WORKERS = 1000  # far more than help; with too many threads none could be made to stop them


class MissingExtraError(SqlcacheError, RuntimeError):
    """A package that the command needs is not installed."""


class _Settings(NamedTuple):
    """What the options say.

    Attributes:
        controllers: names in the catalog.
        backend, labels: as `open_store` takes them.
        workers: of each controller.
        part: of the resources in namespaces.
    """

    controllers: tuple[str, ...]
    backend: str
    labels: LabelPolicy | None
    workers: int
    part: Part


def _controllers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    names = separated(value)
    for name in names:
        if name not in CONTROLLERS:
            raise click.BadParameter(
                f"no controller {name!r}: choose from {', '.join(CONTROLLERS)}"
            )
    if not names:
        raise click.BadParameter(f"name at least one of {', '.join(CONTROLLERS)}")
    return names


def _address(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise click.BadParameter(f"{value!r} is no HOST:PORT, such as {_LISTEN} or [::]:8080")
    return host, int(port)


def _lease(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, str]:
    namespace, slash, name = value.rpartition("/")
    if not name or "/" in namespace or bool(slash) != bool(namespace):
        raise click.BadParameter(f"{value!r} is no [NAMESPACE/]NAME")
    return namespace, name


@click.command(short_help="Run controllers on a cluster.")
@click.option(
    "--controllers",
    metavar="NAMES",
    default=",".join(CONTROLLERS),
    show_default=True,
    callback=_controllers,
    help="Controllers to run, separated by commas.",
)
@backend_option("a file from which it goes on after a restart")
@labels_option
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST_WORKERS),
    default=WORKERS,
    show_default=True,
    help="Services that each controller syncs at a time.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default=ALL_NAMESPACES,
    help="Look at the services of this namespace only. Default: of all.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Work only while holding a Lease, so that several can run. Default: in a pod only.",
)
@click.option(
    "--lease",
    metavar="[NAMESPACE/]NAME",
    default=_LEASE,
    show_default=True,
    callback=_lease,
    help="The Lease. Default namespace: that of the pod, or of the context.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=_LISTEN,
    show_default=True,
    callback=_address,
    help="Where /healthz, /readyz and /metrics answer; port 0 takes a free one.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Form of the lines on stderr.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Look at every service once, show what would be written, write nothing, and end.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["diff", "json"]),
    help="Form of what --dry-run shows: a diff of YAML, or a line of JSON for each write."
    "  [default: diff]",
)
@cluster_options
def run(
    controllers: tuple[str, ...],
    backend: str,
    labels: LabelPolicy | None,
    workers: int,
    namespace: str,
    leader_elect: bool | None,
    lease: tuple[str, str],
    listen: tuple[str, int],
    log_format: LogFormat,
    dry_run: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Run controllers on a cluster.

    They write what kube-controller-manager writes, and fight with it over the same objects: run
    them where it runs without its own. Try --dry-run first. Without a kubeconfig the service
    account of the pod is used. A first SIGTERM or Ctrl-C lets what waits be done, and gives the
    Lease back; a second one ends at once.

    \b
    Examples:
      sqlcache run --dry-run --context prod
      sqlcache run --controllers endpointslice --backend dict-index --workers 10
      sqlcache run --leader-elect --lease kube-system/endpoints --listen 0.0.0.0:8080
    """
    if dry_run and leader_elect:
        raise click.UsageError("--dry-run writes nothing, also no Lease: not with --leader-elect")
    if output and not dry_run:
        raise click.UsageError("-o is for --dry-run")
    if labels is not None and backend in ("dict", "dict-index"):
        raise click.UsageError(f"--labels is for the sqlite backends: not with {backend}")
    settings = _Settings(controllers, backend, labels, workers, Part(namespace))
    with (
        logging_to(sys.stderr, log_format),
        tuned_interpreter(),
        closing(Cluster(kubeconfig, context)) as cluster,
        _locked(backend),
    ):
        if dry_run:
            _show(cluster, settings, _json if output == "json" else _diff)
            return
        elects = cluster.in_cluster if leader_elect is None else leader_elect
        _manage(cluster, settings, lease if elects else None, listen)


@contextmanager
def _locked(backend: str) -> Iterator[None]:
    path = path_in(backend)
    if path is None:
        yield
        return
    with exclusively(path):
        yield


def _factory(cluster: Cluster, settings: _Settings, metrics: Any = None) -> SharedInformerFactory:
    identity = cluster.identity() if path_in(settings.backend) else ""

    def list_watch(name: str) -> ListWatch:
        watched = RESOURCES[name]
        part = settings.part if watched.namespaced else Part()
        made = cluster.list_watch_of(watched.resource, part)
        cluster.count(made)  # what is refused ends the command, instead of being tried for ever
        # A cluster that was set up anew may have the same address, but not what the file holds.
        made.source = f"{made.source} {identity}"
        return made

    def store(name: str) -> Indexer:
        opened = open_store(settings.backend, name, labels=settings.labels)
        return opened if metrics is None else metrics.observed(opened)

    return SharedInformerFactory(
        list_watch, store=store, transform=strip_managed_fields, metrics=metrics
    )


def _manage(
    cluster: Cluster,
    settings: _Settings,
    lease: tuple[str, str] | None,
    listen: tuple[str, int],
) -> None:
    try:
        from sqlcache.metrics import PrometheusMetrics
    except ImportError as error:
        raise MissingExtraError("run needs: pip install 'sqlcache[metrics]'") from error
    metrics, api = PrometheusMetrics(), cluster.objects_api()
    with _factory(cluster, settings, metrics) as factory:
        manager = Manager(
            api,
            factory,
            [
                CONTROLLERS[name](api, factory, workers=settings.workers, metrics=metrics)
                for name in settings.controllers
            ],
            elector=_elector(cluster, lease, metrics) if lease else None,
            during_first_sync=collector_off,
        )
        with (
            stop_on_signals() as stop,
            HttpEndpoints(
                *listen,
                healthz=manager.healthz(),
                readyz=manager.readyz(),
                metrics=metrics.exposition,
            ) as endpoints,
        ):
            names = ", ".join(settings.controllers)
            _LOG.info("running %s on %s, cluster %s", names, settings.backend, cluster.address)
            _LOG.info("serving /healthz, /readyz and /metrics at %s", endpoints.url)
            manager.run(stop)
    _LOG.info("stopped")


def _elector(cluster: Cluster, lease: tuple[str, str], metrics: Any) -> LeaderElector:
    namespace, name = lease
    # As in kube-controller-manager: two attempts fit into the renew deadline.
    api = cluster.objects_api(read_timeout_s=RENEW_DEADLINE_S / 2)
    return LeaderElector(
        api,
        namespace=namespace or cluster.namespace,
        name=name,
        identity=identity(),
        recorder=EventRecorder(api, "sqlcache"),
        gauge=metrics.new_leader_metric(name),
    )


def _show(cluster: Cluster, settings: _Settings, show: Callable[[Write], None]) -> None:
    """Show what the controllers would write now."""
    api, looked_at, failed = DryRunObjects(cluster.objects_api()), 0, 0
    with _factory(cluster, settings) as factory:
        controllers = [
            CONTROLLERS[name](api, factory, workers=settings.workers, metrics=None)
            for name in settings.controllers
        ]
        with collector_off():
            factory.start()
            factory.wait_for_sync()
        for controller in controllers:
            for key, writes, error in first_pass(controller, api):
                looked_at += 1
                for each in writes:
                    show(each)
                flush()
                if error is not None:
                    failed += 1
                    _LOG.error("%s: cannot handle %s: %s", controller.name, key, error)
    counts = f"{some(looked_at, 'key')} looked at, {some(len(api.writes), 'write')}"
    click.echo(f"{counts}, none of them made", err=True)
    if failed:
        click.echo(f"Error: {failed} of them could not be worked out", err=True)
        raise click.exceptions.Exit(FAILED)


def _diff(each: Write) -> None:
    from sqlcache.manager.diffs import diff

    write(diff(each))


def _json(each: Write) -> None:
    write_json_line({**each._asdict(), "resource": each.resource._asdict()})
