"""What clients send: objects, patches and the options of writes.

Source: apiserver endpoints/handlers create.go, update.go, patch.go, delete.go; apimachinery
runtime/serializer/json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from sqlcache.objects import Object
from sqlcache.testing.apiserver import patches, status
from sqlcache.testing.apiserver.deletion import POLICIES, DeleteOptions
from sqlcache.testing.apiserver.listing import integer, truth
from sqlcache.testing.apiserver.registry import prepare
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.schema import FieldTypeError, conform
from sqlcache.testing.apiserver.status import Cause

Parameters: TypeAlias = Mapping[str, Sequence[str]]

_META = "meta.k8s.io"
_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_SHOWN_CHARS = 100
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def media_type(header: str) -> str:
    """Return the media type of a Content-Type header, without parameters."""
    return header.partition(";")[0].strip().lower()


def check_json(header: str) -> None:
    """Refuse a body that is not declared as JSON.

    Raises:
        ApiError: 415.
    """
    if media_type(header) not in ("", "application/json"):
        raise status.unsupported_body()


def write_options(kind: str, query: Parameters) -> tuple[bool, str]:
    """Return whether a write is a dry run, and how unknown fields are treated.

    Args:
        kind: "CreateOptions", "UpdateOptions" or "PatchOptions".
        query: all values of each parameter.

    Raises:
        ApiError: 422.
    """
    causes = _dry_run_causes(query.get("dryRun", ()))
    validation = (query.get("fieldValidation") or [""])[0]
    if validation not in _VALIDATIONS:
        causes.append(status.not_supported("fieldValidation", validation, _VALIDATIONS))
    if causes:
        raise status.invalid(kind, _META, "", causes)
    return bool(query.get("dryRun")), validation


def _dry_run_causes(values: Sequence[str]) -> list[Cause]:
    if all(value == "All" for value in values):
        return []
    return [status.not_supported("dryRun", list(values), ["All"])]


def parse_object(resource: Resource, body: bytes) -> Object:
    """Return the object in a body; kind and apiVersion are right or left out.

    Raises:
        ApiError: 400.
    """
    unrecognized = f"the object provided is unrecognized (must be of type {resource.kind})"
    try:
        obj = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        sent = body.decode("utf-8", "replace")[:_SHOWN_CHARS] or "<empty>"
        raise status.bad_request(
            f"{unrecognized}: couldn't get version/kind; json parse error: {error} ({sent})"
        ) from error
    if not isinstance(obj, dict):
        raise status.bad_request(f"{unrecognized}: couldn't get version/kind; no JSON object")
    kind, version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if resource.custom and not (kind and version):
        missing = "apiVersion" if kind else "Kind"
        raise status.bad_request(f"Object '{missing}' is missing in the object provided")
    kind, version = kind or resource.kind, version or resource.group_version
    if (kind, version) != (resource.kind, resource.group_version):
        raise status.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: no kind'
            f' "{kind}" is registered for version "{version}" at this path'
        )
    return obj


def read_object(resource: Resource, body: bytes, validation: str) -> tuple[Object, list[str]]:
    """Return the object in a body, made fit its kind, and warnings.

    Raises:
        ApiError: 400.
    """
    obj = parse_object(resource, body)
    cannot = (
        f'{resource.kind} in version "{resource.group_version}"'
        f" cannot be handled as a {resource.kind}"
    )
    try:
        unknown = [f'unknown field "{path}"' for path in prepare(resource, obj)]
    except FieldTypeError as error:
        raise status.bad_request(f"{cannot}: {error}") from error
    if unknown and validation == "Strict":
        raise status.bad_request(f"{cannot}: strict decoding error: {', '.join(unknown)}")
    return obj, [] if validation == "Ignore" else unknown


def read_patch(
    resource: Resource, content_type: str, body: bytes, query: Parameters
) -> Callable[[Object], Object]:
    """Return the function that applies a patch to an object and makes the result fit its kind.

    It raises ApiError if the result is no such object.

    Raises:
        ApiError: 400, 415 or 422.
    """
    media = media_type(content_type)
    if media == APPLY and not query.get("fieldManager"):
        cause = status.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", _META, "", [cause])
    if media not in (MERGE, JSON_PATCH, STRATEGIC) or (media == STRATEGIC and resource.custom):
        raise status.unsupported_patch()
    try:
        patch = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    if not isinstance(patch, list if media == JSON_PATCH else dict):
        found = type(patch).__name__
        raise status.bad_request(f"error decoding patch: json: cannot unmarshal {found}")
    strict = (query.get("fieldValidation") or [""])[0] == "Strict"

    def change(obj: Object) -> Object:
        return _fitted(resource, _patched(media, obj, patch), strict=strict)

    return change


def _patched(media: str, obj: Object, patch: Any) -> Any:
    if media == MERGE:
        return patches.merge(obj, patch)
    try:
        if media == STRATEGIC:
            return patches.strategic_merge(obj, patch)
        return patches.apply_json_patch(obj, patch)
    except patches.PatchError as error:
        if media == STRATEGIC:
            raise status.bad_request(str(error)) from error
        raise status.rejected_patch() from error


def _fitted(resource: Resource, obj: Any, *, strict: bool) -> Object:
    try:
        if not isinstance(obj, dict):
            raise FieldTypeError(f"json: cannot unmarshal into Go value of type {resource.kind}")
        if unknown := prepare(resource, obj):
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            if strict:
                raise FieldTypeError(f"strict decoding error: {listed}")
    except FieldTypeError as error:
        cause = status.invalid_value("patch", obj, str(error))
        raise status.invalid("", "", "", [cause]) from error
    return obj


def delete_options(body: bytes, content_type: str, query: Parameters) -> DeleteOptions:
    """Return the options of a deletion: from the body, or from the query if there is none.

    Raises:
        ApiError: 400, 415 or 422.
    """
    sent = _options_in_body(body, content_type) if body else _options_in_query(query)
    causes = []
    policy = sent.get("propagationPolicy") or ""
    if policy and policy not in POLICIES:
        causes.append(status.not_supported("propagationPolicy", policy, (*POLICIES, "nil")))
    orphan = sent.get("orphanDependents")
    if orphan is not None and policy:
        words = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(status.invalid_value("propagationPolicy", policy, words))
    causes += _dry_run_causes(sent.get("dryRun") or ())
    if causes:
        raise status.invalid("DeleteOptions", _META, "", causes)
    conditions = sent.get("preconditions") or {}
    return DeleteOptions(
        grace_period_s=sent.get("gracePeriodSeconds"),
        uid=conditions.get("uid"),
        rv=conditions.get("resourceVersion"),
        policy=policy or ("Orphan" if orphan else ""),
        dry_run=bool(sent.get("dryRun")),
    )


def _options_in_body(body: bytes, content_type: str) -> Object:
    check_json(content_type)
    try:
        sent = orjson.loads(body)
        if not isinstance(sent, dict):
            raise status.bad_request("json: cannot unmarshal into DeleteOptions")
        conform(sent, "V1DeleteOptions")
    except (orjson.JSONDecodeError, FieldTypeError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    return sent


def _options_in_query(query: Parameters) -> Object:
    first = {name: values[0] for name, values in query.items() if values}
    orphan = first.get("orphanDependents")
    return {
        "gracePeriodSeconds": integer(first.get("gracePeriodSeconds", "")),
        "propagationPolicy": first.get("propagationPolicy", ""),
        "orphanDependents": None if orphan is None else truth(orphan),
        "dryRun": query.get("dryRun", ()),
    }
