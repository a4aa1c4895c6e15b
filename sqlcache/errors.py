"""Every error that sqlcache raises.

All derive from `SqlcacheError` and from the builtin that a caller would already catch. A message
names the input and what was expected of it; the attributes carry the same facts for programs.
Texts that client-go has are kept word for word, so that a search for them finds both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlcache._gotext import quote

_SHOWN_CHARS = 200  # a 5 MB string in a message helps nobody
_SHOWN_REASON_CHARS = 1_000  # the longest reason about tokens of a usual length has some 500


def shown(value: Any) -> str:
    """Return a value as text for a message, shortened to 200 characters."""
    text = "<nil>" if value is None else str(value)
    if len(text) > _SHOWN_CHARS:
        text = f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
    return text


def _shown_reason(reason: str) -> str:
    """Return a reason without its middle if it is long: a huge token is there, not at the end."""
    if len(reason) <= _SHOWN_REASON_CHARS:
        return reason
    half = _SHOWN_REASON_CHARS // 2
    return f"{reason[:half]}… ({len(reason)} characters) …{reason[-half:]}"


class SqlcacheError(Exception):
    """The base of all errors of this package."""


class SelectorError(SqlcacheError, ValueError):
    """A selector, requirement, label key or label value is not valid.

    `str()` shortens a long message; it is whole in `args`.
    Source: apimachinery labels.NewRequirement, metav1.LabelSelectorAsSelector.
    """

    def __str__(self) -> str:
        return _shown_reason(super().__str__())


class SelectorSyntaxError(SelectorError):
    """A selector string cannot be parsed.

    Attributes:
        text: the whole selector as given.
        position: character offset, 0-based, at which parsing stopped.
        reason: kubectl's words for it, in full; `str()` shortens a long one.
    """

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(text, position, reason)
        self.text, self.position, self.reason = text, position, reason

    def __str__(self) -> str:
        where = f"at character {self.position} of {shown(repr(self.text))}"
        return f"{_shown_reason(self.reason)} ({where})"


class ObjectError(SqlcacheError, ValueError):
    """A value given as an object is none that the store can keep.

    Attributes:
        obj: the value.
        reason: what is wrong with it.
    """

    def __init__(self, obj: Any, reason: str) -> None:
        super().__init__(obj, reason)
        self.obj, self.reason = obj, reason

    def __str__(self) -> str:
        return self.reason


class ObjectKeyError(ObjectError):
    """The key function failed on an object.

    Source: client-go tools/cache KeyError.
    """

    def __str__(self) -> str:
        return f"couldn't create key for object {shown(self.obj)}: {self.reason}"


class TransformError(ObjectError):
    """The transform function failed on an object; the store is as it was.

    Source: client-go tools/cache store.go, `transforming: …`.
    """

    def __str__(self) -> str:
        return f"transforming: {self.reason}"


class KeyFormatError(SqlcacheError, ValueError):
    """A string is no `namespace/name` key.

    Source: client-go SplitMetaNamespaceKey.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"unexpected key format: {quote(shown(self.key))}"


class IndexNotFoundError(SqlcacheError, LookupError):
    """No index function is registered under that name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"Index with name {self.name} does not exist"


class IndexerConflictError(SqlcacheError, ValueError):
    """Index functions were added under names already in use; none was added.

    Attributes:
        names: the names in use, sorted.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(tuple(names))
        self.names = tuple(sorted(names))

    def __str__(self) -> str:
        return f"indexer conflict: map[{' '.join(f'{name}:{{}}' for name in self.names)}]"


class IndexFunctionError(SqlcacheError, ValueError):
    """An index function failed on an object; the store is as it was.

    client-go panics here, with the object stored and some indexes updated.
    """

    def __init__(self, key: str, index: str, reason: str) -> None:
        super().__init__(key, index, reason)
        self.key, self.index, self.reason = key, index, reason

    def __str__(self) -> str:
        return (
            f'unable to calculate an index entry for key "{self.key}"'
            f' on index "{self.index}": {self.reason}'
        )


class SelectorFunctionError(SqlcacheError, ValueError):
    """The function that tells what an object selects failed on it; the store is as it was."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key, self.reason = key, reason

    def __str__(self) -> str:
        return f"unable to tell what the object with key {self.key!r} selects: {self.reason}"


class NoSelectorsError(SqlcacheError, LookupError):
    """The objects of a store select nothing, for the store was opened without a selector function.

    Attributes:
        resource: the plural resource name the store was opened for.
    """

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource

    def __str__(self) -> str:
        return (
            f"nothing tells what objects of the resource {self.resource!r} select:"
            " open the store with selector_func="
        )


class TransactionError(SqlcacheError):
    """Some operations of a transaction were skipped; the others were applied.

    Attributes:
        successful_indices: positions, 0-based, of the operations applied.
        total_transactions: how many were given.
        errors: one error for each operation skipped, in order.

    Source: client-go tools/cache TransactionError.
    """

    def __init__(
        self,
        successful_indices: Sequence[int],
        total_transactions: int,
        errors: Sequence[SqlcacheError],
    ) -> None:
        super().__init__(successful_indices, total_transactions, errors)
        self.successful_indices = tuple(successful_indices)
        self.total_transactions = total_transactions
        self.errors = tuple(errors)

    def __str__(self) -> str:
        failed = self.total_transactions - len(self.successful_indices)
        reasons = " ".join(map(str, self.errors))
        return (
            f"failed to execute ({failed}/{self.total_transactions}) transactions"
            f" failed due to: [{reasons}]"
        )


class NotFoundError(SqlcacheError, LookupError):
    """No object of that name.

    Source: apimachinery errors.NewNotFound.
    """

    def __init__(self, resource: str, name: str) -> None:
        super().__init__(resource, name)
        self.resource, self.name = resource, name

    def __str__(self) -> str:
        return f'{self.resource} "{self.name}" not found'


class MutatedObjectError(SqlcacheError, RuntimeError):
    """A caller changed an object that the cache shares with all readers.

    Raised only by stores opened with `detect_mutation=True`.
    Source: client-go tools/cache mutation_detector.go.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"object {self.key!r} in the cache was changed by a caller; copy it first"


class StoreClosedError(SqlcacheError, RuntimeError):
    """The store was closed before or during the call."""

    def __init__(self) -> None:
        super().__init__("the store is closed")


class ReentrantWriteError(SqlcacheError, RuntimeError):
    """A write, or `close`, was called from within a write of the same store and thread.

    As by what `replace` or `apply` iterates over, or by a transform or index function. So is a
    read, where it would wait for the write.
    """

    def __init__(self) -> None:
        super().__init__("a write of this store is under way in this thread")


class BackendError(SqlcacheError, ValueError):
    """No backend of that name, or an option that the backend does not have."""


class DatabaseError(SqlcacheError, OSError):
    """The database refused a call: disk full, read-only, locked, input/output error.

    The call left the cache as it was; the driver's error is the cause.
    """

    def __init__(self, database: str, reason: str) -> None:
        super().__init__(database, reason)
        self.database, self.reason = database, reason

    def __str__(self) -> str:
        return f"{self.database}: {self.reason}"


class NotACacheError(DatabaseError):
    """The file is no SQLite database, or one that sqlcache did not make. It was not touched."""


class DamagedDatabaseError(DatabaseError):
    """The file is cut short or its pages are corrupt. It was not touched."""


class SchemaVersionError(DatabaseError):
    """The file has a schema version that this release does not know, or needs `sqlcache migrate`.

    It was not touched.
    """


class CompressedError(DatabaseError):
    """Objects of the database are compressed, and they cannot be read: no library, or damaged.

    It was not touched.
    """


class QueueShutDownError(SqlcacheError, RuntimeError):
    """The work queue was shut down and has no item left: a worker should end."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"work queue {self.name!r} is shut down" if self.name else "work queue is shut down"


class KubeConfigError(SqlcacheError, ValueError):
    """There is no usable configuration of a cluster.

    Attributes:
        path: of the kubeconfig file or files; "" if there are none.
        reason: what is wrong.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class UnknownResourceError(SqlcacheError, LookupError):
    """The API server has no resource of that name.

    Source: kubectl, cli-runtime pkg/resource builder.go.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f'the server doesn\'t have a resource type "{shown(self.name)}"'


class PathSegmentError(SqlcacheError, ValueError):
    """A name of a namespace or an object cannot be part of a URL.

    Attributes:
        name: the name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"invalid name {shown(repr(self.name))}: may not be '.' or '..', nor hold '/' or '%'"


class ApiConnectionError(SqlcacheError, ConnectionError):
    """The API server could not be reached, or the connection broke."""


class ApiConnectionRefusedError(ApiConnectionError, ConnectionRefusedError):
    """Nothing listens at the API server's address."""


class ApiTimeoutError(ApiConnectionError, TimeoutError):
    """The API server did not answer, or fell silent, for longer than the timeout."""


class ApiDecodeError(SqlcacheError, ValueError):
    """The API server's answer is not what was asked for: no JSON, or of another shape."""


class ApiStatusError(SqlcacheError, OSError):
    """The API server refused a request, or ended a watch, with a Status.

    Attributes:
        code: HTTP status, 0 if the Status names none.
        reason: word for programs, such as "Expired"; "" if none.
        message: sentence for people.
        details: the Status' details, such as `causes`.
        retry_after: seconds to wait at least, None if the server does not say.

    Source: apimachinery api/errors StatusError.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, reason, message, details, retry_after)
        self.code, self.reason, self.message = code, reason, message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message or f"{self.code} {self.reason}".strip()

    def is_not_found(self) -> bool:
        """Return whether the object, or its namespace, does not exist."""
        return self.code == 404

    def is_forbidden(self) -> bool:
        """Return whether the request is understood and refused."""
        return self.code == 403

    def has_cause(self, reason: str) -> bool:
        """Return whether the details name a cause, such as "NamespaceTerminating".

        Source: apimachinery errors.HasStatusCause.
        """
        causes = self.details.get("causes") or ()
        return any(isinstance(cause, dict) and cause.get("reason") == reason for cause in causes)

    @classmethod
    def from_status(cls, status: Any, retry_after: float | None = None) -> ApiStatusError:
        """Return the error that a decoded Status object stands for; other objects do as well.

        Source: apimachinery errors.FromObject.
        """
        if not isinstance(status, dict) or status.get("kind") not in (None, "Status"):
            return cls(0, "", f"unexpected object: {shown(status)}")
        details = status.get("details")
        details = details if isinstance(details, dict) else {}
        seconds = details.get("retryAfterSeconds")
        if retry_after is None and isinstance(seconds, int) and seconds > 0:
            retry_after = float(seconds)
        code = status.get("code")
        return cls(
            code if isinstance(code, int) else 0,
            str(status.get("reason") or ""),
            str(status.get("message") or ""),
            details,
            retry_after,
        )


class StaleCacheError(SqlcacheError, RuntimeError):
    """A cache still shows an object as it was before a controller's own write: try again later.

    Attributes:
        resource: plural name of the resource.
        resource_version: the version that the cache shows.
        key: of the object.

    Source: pkg/controller/endpoint syncService.
    """

    def __init__(self, resource: str, resource_version: str, key: str) -> None:
        super().__init__(resource, resource_version, key)
        self.resource, self.resource_version, self.key = resource, resource_version, key

    def __str__(self) -> str:
        return (
            f"{self.resource} informer cache is out of date, resource version"
            f" {self.resource_version} already processed for {self.resource} {self.key}"
        )


class StaleSlicesError(SqlcacheError, RuntimeError):
    """A cache does not show the slices of a service as they were written: try again later.

    Attributes:
        service: key of the service.

    Source: pkg/controller/endpointslice syncService.
    """

    def __init__(self, service: str) -> None:
        super().__init__(service)
        self.service = service

    def __str__(self) -> str:
        return "EndpointSlice informer cache is out of date"


class MissingNodeError(SqlcacheError, LookupError):
    """A pod is not published, for nothing is known of its node.

    Attributes:
        pod: its name.
        service: key of the service.
        node: name of the node; "" if the pod names none.

    Source: endpointslice reconciler.go reconcileByAddressType.
    """

    def __init__(self, pod: str, service: str, node: str) -> None:
        super().__init__(pod, service, node)
        self.pod, self.service, self.node = pod, service, node

    def __str__(self) -> str:
        return f"skipping Pod {self.pod} for Service {self.service}: Node {self.node} Not Found"


class SliceWriteError(SqlcacheError, RuntimeError):
    """A slice of a service could not be written.

    Attributes:
        failed: what failed, such as "failed to update".
        name: of the slice; "" if it was to be created.
        service: key of the service.
        cause: why.

    Source: endpointslice reconciler.go finalize.
    """

    def __init__(self, failed: str, name: str, service: str, cause: Exception) -> None:
        super().__init__(failed, name, service, cause)
        self.failed, self.name, self.service, self.cause = failed, name, service, cause

    def __str__(self) -> str:
        named = f"{self.name} EndpointSlice" if self.name else "EndpointSlice"
        return f"{self.failed} {named} for Service {self.service}: {self.cause}"


class AggregateError(SqlcacheError, RuntimeError):
    """Several things failed, each on its own.

    Attributes:
        errors: what was raised, in order; at least one.

    Source: apimachinery util/errors NewAggregate.
    """

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__(tuple(errors))
        self.errors = tuple(errors)

    def __str__(self) -> str:
        texts = list(dict.fromkeys(map(str, self.errors)))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


class LeaseLostError(SqlcacheError, RuntimeError):
    """This process does not lead any more: another one may.

    Attributes:
        lease: its key.
        reason: why.
    """

    def __init__(self, lease: str, reason: str) -> None:
        super().__init__(lease, reason)
        self.lease, self.reason = lease, reason

    def __str__(self) -> str:
        return f"lease {self.lease} is lost: {self.reason}"


class InformerStateError(SqlcacheError, RuntimeError):
    """The call comes too late: the informer has started or stopped already."""


class ReflectorError(SqlcacheError, RuntimeError):
    """A list could not be made, or its result not be used; the cause says why."""


class VeryShortWatchError(SqlcacheError, RuntimeError):
    """A watch ended within a second and without an event.

    Source: client-go tools/cache VeryShortWatchError.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"very short watch: {self.name}: Unexpected watch close - "
            "watch lasted less than a second and no items received"
        )


class DumpError(SqlcacheError, ValueError):
    """A file is no dump of cluster objects, or a broken one.

    Attributes:
        path: the file as the caller named it, or "stdin".
        where: the place in it, such as "items[3]" or "line 4, column 7"; "" for the whole file.
        reason: what is wrong there.
    """

    def __init__(self, path: str, where: str, reason: str) -> None:
        super().__init__(path, where, reason)
        self.path, self.where, self.reason = path, where, reason

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.where, self.reason) if part)
