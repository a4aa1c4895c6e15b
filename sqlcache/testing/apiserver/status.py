"""What the API server answers when it cannot do what it was asked: `Status` objects.

Promises
- Code, reason, details and causes are those of kube-apiserver 1.36; so are most messages.

Source: apimachinery api/errors, util/validation/field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlcache.errors import SqlcacheError
from sqlcache.objects import Object

if TYPE_CHECKING:
    from sqlcache.testing.apiserver.resources import Resource

RETRY_TOO_LARGE_S = 1  # what the server advises when it has not seen a resourceVersion yet
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(SqlcacheError, RuntimeError):
    """A request was refused.

    Attributes:
        status: the Status object, as it is sent.
        code: the HTTP status.
    """

    def __init__(self, status: Object) -> None:
        """Take the Status."""
        super().__init__(status)
        self.status = status
        self.code: int = status["code"]

    def __str__(self) -> str:
        """Return code, reason and message."""
        return f"{self.code} {self.status.get('reason', '')}: {self.status['message']}"


class Cause(NamedTuple):
    """One field that a validation rejects.

    Source: apimachinery field.Error.
    """

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        """Return field and message, as the Status names it."""
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a field that must be given."""
    return Cause("FieldValueRequired", field, f"Required value{': ' if detail else ''}{detail}")


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """Return the cause for a value that is none of those supported."""
    known = ", ".join(f'"{each}"' for each in supported)
    message = f"Unsupported value: {_shown(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", field, message)


def forbidden_value(field: str, detail: str) -> Cause:
    """Return the cause for a field that must not be given or changed."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def failure(
    code: int,
    message: str,
    reason: str | None = None,
    details: Object | None = None,
    metadata: Object | None = None,
) -> ApiError:
    """Return the error with a Status.

    Args:
        code: the HTTP status.
        message: for people.
        reason: None takes the usual one of the code; "" leaves the field out.
        details: None leaves the field out.
        metadata: of the Status itself.
    """
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata or {},
        "status": "Failure",
        "message": message,
    }
    reason = _REASONS.get(code, "") if reason is None else reason
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    status["code"] = code
    return ApiError(status)


def success(resource: Resource, name: str, uid: str) -> Object:
    """Return the Status of a deletion whose object is not sent back."""
    details = {**_details(resource, name), "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def _details(resource: Resource, name: str = "", kind: str = "") -> Object:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> ApiError:
    """Return 400."""
    return failure(400, message)


def unauthorized() -> ApiError:
    """Return 401: a token that nobody has."""
    return failure(401, "Unauthorized")


def forbidden(
    resource: Resource, name: str, why: str, causes: Sequence[Cause] | None = None
) -> ApiError:
    """Return 403 for an object, or for a collection if the name is empty."""
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    details = _details(resource, name)
    if causes:
        details["causes"] = _listed(causes)
    return failure(403, f"{subject} is forbidden: {why}", details=details)


def forbidden_path(user: str, verb: str, path: str) -> ApiError:
    """Return 403 for a path that is no resource."""
    return failure(403, f'forbidden: User "{user}" cannot {verb} path "{path}"', details={})


def not_found(resource: Resource, name: str) -> ApiError:
    """Return 404 for an object."""
    message = f'{resource.qualified} "{name}" not found'
    return failure(404, message, details=_details(resource, name))


def no_such_resource() -> ApiError:
    """Return 404 for a resource that the group does not have."""
    return failure(404, "the server could not find the requested resource", details={})


def method_not_allowed() -> ApiError:
    """Return 405."""
    message = "the server does not allow this method on the requested resource"
    return failure(405, message, details={})


def not_acceptable_variant() -> ApiError:
    """Return 406: JSON is fine, the form of the object asked for is not served."""
    return failure(406, f"only the following media types are accepted: {ACCEPTED}")


def not_acceptable() -> ApiError:
    """Return 406: no media type asked for is served."""
    available = f"{ACCEPTED}, application/json;stream=watch"
    message = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return failure(406, message, details={})


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return 409 for a create."""
    message = f'{resource.qualified} "{name}" already exists'
    return failure(409, message, "AlreadyExists", _details(resource, name))


def conflict(resource: Resource, name: str, why: str, kind: str = "") -> ApiError:
    """Return 409 for an update or a delete.

    Args:
        resource: of the object.
        name: of the object.
        why: what does not fit.
        kind: named instead of the resource, as the preconditions of a delete do.
    """
    subject = f"{kind}.{resource.group}" if kind and resource.group else kind
    message = f'Operation cannot be fulfilled on {subject or resource.qualified} "{name}": {why}'
    return failure(409, message, details=_details(resource, name, kind))


def modified(resource: Resource, name: str) -> ApiError:
    """Return 409 for an update of an old version."""
    why = (
        "the object has been modified; please apply your changes to the latest version"
        " and try again"
    )
    return conflict(resource, name, why)


def expired(message: str, continue_token: str = "") -> ApiError:
    """Return 410: the history asked for is forgotten."""
    metadata = {"continue": continue_token} if continue_token else {}
    return failure(410, message, metadata=metadata)


def unsupported_body() -> ApiError:
    """Return 415 for a body that is no JSON."""
    message = (
        "the body of the request was in an unknown format"
        f" - accepted media types include: {ACCEPTED}"
    )
    return failure(415, message)


def unsupported_patch() -> ApiError:
    """Return 415 for a kind of patch that is not served."""
    return failure(415, "415: Unsupported Media Type", details={})


def rejected_patch() -> ApiError:
    """Return 422 for a JSON patch that cannot be applied."""
    message = "the server rejected our request due to an error in our request"
    return failure(422, message, details={})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """Return 422: each cause is listed, and named once in the message."""
    texts = list(dict.fromkeys(map(str, causes)))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: Object = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = _listed(causes)
    return failure(422, f'{qualified} "{name}" is invalid: {text}', details=details)


def _listed(causes: Iterable[Cause]) -> list[Object]:
    return [
        {"reason": each.reason, "message": each.message, "field": each.field} for each in causes
    ]


def too_many_requests(retry_after_s: int) -> ApiError:
    """Return 429."""
    message = "the server has received too many requests and has asked us to try again later"
    return failure(429, message, details={"retryAfterSeconds": retry_after_s})


def internal(message: str) -> ApiError:
    """Return 500 without a reason, as for errors that the server did not foresee."""
    return failure(500, message, reason="")


def too_large(asked: int, current: int) -> ApiError:
    """Return 504: the server has not seen that resourceVersion yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return failure(
        504,
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": causes, "retryAfterSeconds": RETRY_TOO_LARGE_S},
    )
