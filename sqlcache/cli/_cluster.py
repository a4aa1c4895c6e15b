"""A cluster: the options that choose it, its resources, and its errors in words.

What talks to it needs the extra `kubernetes`, and is imported when a command needs it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from sqlcache.cli._errors import describe, one_line
from sqlcache.client import ListWatch, Resource
from sqlcache.client.discovery import ApiResource, discover, find
from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.errors import (
    ApiConnectionError,
    ApiConnectionRefusedError,
    ApiStatusError,
    ApiTimeoutError,
    SqlcacheError,
)
from sqlcache.objects import Object

if TYPE_CHECKING:
    from sqlcache.client.objects import ApiObjects
    from sqlcache.client.transport import ApiListWatch

Command = TypeVar("Command", bound=Callable[..., Any])

PAGE_OBJECTS = 500  # as kubectl's --chunk-size
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


class ClusterError(SqlcacheError, RuntimeError):
    """A cluster cannot be talked to, or refuses what is asked of it."""


def cluster_options(command: Command) -> Command:
    """Add `--kubeconfig` and `--context`."""
    file = click.option(
        "--kubeconfig",
        metavar="PATH",
        help="Kubeconfig file. Default: those in KUBECONFIG, else ~/.kube/config, as in kubectl.",
    )
    context = click.option(
        "--context", metavar="NAME", help="Context in it. Default: the current one."
    )
    return file(context(command))


class Part(NamedTuple):
    """A part of a resource, for the API server to select.

    Attributes:
        namespace: "" for all.
        labels: label selector, in the API's syntax.
        fields: field selector, likewise.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""


_EVERYTHING = Part()


class Cluster:
    """An API server, as a user. Close it.

    Attributes:
        address: of the API server, without credentials.
        namespace: where commands look unless told otherwise.
        in_cluster: whether the configuration is that of the pod that this runs in.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        """Read the configuration; nothing is asked of the server yet.

        Raises:
            ClusterError: the extra `kubernetes` is not installed.
            KubeConfigError: there is no usable configuration.
        """
        try:
            from sqlcache.client.documents import ApiDocuments
            from sqlcache.client.kubeconfig import choose_context, pod_namespace
            from sqlcache.client.objects import ApiObjects
            from sqlcache.client.transport import ApiListWatch, connect
        except ImportError as error:
            raise ClusterError(
                "talking to a cluster needs its client: pip install 'sqlcache[kubernetes]'"
            ) from error
        chosen = choose_context(kubeconfig, context)
        self.namespace = chosen.namespace if chosen else pod_namespace()
        self.in_cluster = chosen is None
        self._client = connect(kubeconfig, context)
        self._list_watch, self._api_objects = ApiListWatch, ApiObjects
        url = urlsplit(self._client.configuration.host)
        self.address = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
        self._closing = ExitStack()
        self._documents = ApiDocuments(self._client)
        self._closing.callback(self._documents.close)

    def close(self) -> None:
        """Close all connections."""
        self._closing.close()

    def find(self, names: Iterable[str]) -> list[ApiResource]:
        """Return the resources that names stand for, each once.

        Raises:
            UnknownResourceError: one stands for none.
            ClusterError: the server cannot be asked.
        """
        with self.in_words():
            known = discover(self._documents.get)
        return list(dict.fromkeys(find(known, name) for name in names))

    def identity(self) -> str:
        """Return what tells this cluster from others: the uid of kube-system, "" if it is hidden.

        Raises:
            ClusterError: the server cannot be asked.
        """
        with self.in_words():
            try:
                namespace = self._documents.get("/api/v1/namespaces/kube-system")
            except ApiStatusError as error:
                if error.code in (_FORBIDDEN, _NOT_FOUND):
                    return ""
                raise
        return str(namespace["metadata"]["uid"])

    def list_watch(self, resource: ApiResource, part: Part) -> ListWatch:
        """Return what lists and watches a part of a resource."""
        inside = part.namespace if resource.namespaced else ""
        return self.list_watch_of(resource.resource, part._replace(namespace=inside))

    def list_watch_of(self, resource: Resource, part: Part = _EVERYTHING) -> ApiListWatch:
        """Return what lists and watches a part of a resource that need not be looked up."""
        made = self._list_watch(
            self._client,
            resource,
            namespace=part.namespace,
            label_selector=part.labels,
            field_selector=part.fields,
        )
        self._closing.callback(made.close)
        return made

    def objects_api(self, **limits_s: float) -> ApiObjects:
        """Return what reads and writes single objects.

        Args:
            limits_s: see `ApiObjects`.
        """
        made = self._api_objects(self._client, **limits_s)
        self._closing.callback(made.close)
        return made

    def count(self, list_watch: ListWatch) -> int | None:
        """Return how many objects there are, if the server says so; it does not with selectors.

        Raises:
            ClusterError: they cannot be listed.
        """
        page = self._page(list_watch, limit=1)
        left = page["metadata"].get("remainingItemCount")
        if left is None and page["metadata"].get("continue"):
            return None
        return len(page.get("items") or ()) + (left or 0)

    def objects(self, resource: ApiResource, list_watch: ListWatch) -> Iterator[Object]:
        """Yield all objects, page by page.

        Raises:
            ClusterError: they cannot be listed.
        """
        token = ""
        while True:
            page = self._page(list_watch, limit=PAGE_OBJECTS, token=token)
            for obj in page.get("items") or ():
                # The items of a typed list do not repeat it.
                obj.setdefault("apiVersion", resource.api_version)
                obj.setdefault("kind", resource.kind)
                yield without_managed_fields(obj)
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    def _page(self, list_watch: ListWatch, *, limit: int, token: str = "") -> Any:
        with self.in_words():
            page = list_watch.list_page(
                resource_version="",
                limit=limit,
                continue_token=token,
                stop=StopSignal(MonotonicClock()),
            )
        if not isinstance(page.get("metadata"), dict):
            raise ClusterError(f"the API server at {self.address} sent no list")
        return page

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Turn what the transport raises into a `ClusterError`."""
        try:
            yield
        except ClusterError:
            raise
        except (SqlcacheError, OSError) as error:
            raise ClusterError(self.words(error)) from error

    def words(self, error: Exception) -> str:
        """Return one line that tells what went wrong, and with which server."""
        if isinstance(error.__cause__, ApiStatusError | ApiConnectionError):
            error = error.__cause__
        if isinstance(error, ApiConnectionRefusedError):
            return f"the API server at {self.address} refused the connection"
        if isinstance(error, ApiTimeoutError):
            return f"the API server at {self.address} does not answer"
        if isinstance(error, ApiConnectionError):
            return f"the API server at {self.address} cannot be reached: {describe(error)}"
        if isinstance(error, ApiStatusError) and error.code == _UNAUTHORIZED:
            said = describe(error)
            return f"the API server at {self.address} does not accept the credentials: {said}"
        return describe(error)


def without_managed_fields(obj: Any) -> Any:
    """Return an object without `metadata.managedFields`, as kubectl shows it: often half of it."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
    return obj


@contextmanager
def logs_in_words(say: Callable[[str], None]) -> Iterator[None]:
    """Have errors that are logged said in one line, such as those of a credential plug-in.

    Args:
        say: called from any thread.
    """
    root, handler = logging.getLogger(), _InWords(say)
    root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            # Somebody chose insecure-skip-tls-verify; kubectl does not repeat it either.
            warnings.filterwarnings("ignore", message="Unverified HTTPS request")
            yield
    finally:
        root.removeHandler(handler)


class _InWords(logging.Handler):
    """Says a record in one line, without its traceback."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f": {describe(error)}" if isinstance(error, Exception) else ""
        self._say(one_line(f"{record.getMessage()}{reason}"))
