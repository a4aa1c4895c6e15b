"""Lists: what is asked for, which objects match, pages and their continue tokens.

Promises
- All pages of a list are of the resourceVersion of the first.
- A limit with resourceVersion=0 is ignored, as by the cache of a real server.

Source: apiserver endpoints/handlers get.go, storage/cacher, storage/etcd3, storage/continue.go;
apimachinery internalversion/validation.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias, cast

from sqlcache.errors import SelectorError, SelectorSyntaxError
from sqlcache.selectors import FieldGetter, FieldSelector, Selector, parse, parse_field_selector
from sqlcache.testing.apiserver import status
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.status import Cause
from sqlcache.testing.apiserver.storage import HistoryForgottenError, Record, Storage

Query: TypeAlias = Mapping[str, str]

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"
_FORGOTTEN = "The resourceVersion for the provided list is too old."
_TOKEN_FORGOTTEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start"  # noqa: S105 (no password)
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects a list or a watch is about.

    Attributes:
        resource: of the objects.
        namespace: "" means all.
        labels: selector.
        fields: selector.
    """

    resource: Resource
    namespace: str
    labels: Selector
    fields: FieldSelector

    @property
    def selects(self) -> bool:
        """Whether a selector restricts the objects."""
        return not (self.labels.empty and self.fields.empty)

    def matcher(self) -> Callable[[Record], bool]:
        """Return the function that says whether a record matches the selectors."""
        labels, fields = self.labels.matches, self.fields.matches
        if self.fields.empty:
            return lambda record: labels(record.labels)
        return lambda record: labels(record.labels) and fields(cast("Any", record.fields))


def scope(resource: Resource, namespace: str, query: Query) -> Scope:
    """Return what a query selects.

    Raises:
        ApiError: 400, a selector cannot be parsed or names a field not supported.
    """
    # The getters read a field from the values kept beside a record, by its position.
    getters = {path: itemgetter(index) for index, path in enumerate(resource.fields)}
    try:
        labels = parse(query.get("labelSelector", ""))
        fields = parse_field_selector(
            query.get("fieldSelector", ""), cast("Mapping[str, FieldGetter]", getters)
        )
    except SelectorSyntaxError as error:
        raise status.bad_request(error.reason) from error
    except SelectorError as error:
        raise status.bad_request(str(error)) from error
    return Scope(resource, namespace, labels, fields)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The other parameters of a list or a watch.

    Attributes:
        rv: resourceVersion as sent, "" if it was not.
        match: resourceVersionMatch, "" if it was not sent.
        limit: 0 means none.
        token: continue, "" if it was not sent.
        send_initial: sendInitialEvents, None if it was not sent.
        bookmarks: allowWatchBookmarks.
        timeout_s: timeoutSeconds, None if it was not sent.
    """

    rv: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    send_initial: bool | None = None
    bookmarks: bool = False
    timeout_s: int | None = None


def options(query: Query, *, watch: bool) -> ListOptions:
    """Return the options of a list or a watch.

    Raises:
        ApiError: 400, a number cannot be parsed; 422, they do not fit together.
    """
    initial = query.get("sendInitialEvents")
    found = ListOptions(
        rv=query.get("resourceVersion", ""),
        match=query.get(_MATCH, ""),
        limit=max(integer(query.get("limit", "")) or 0, 0),
        token=query.get("continue", ""),
        send_initial=None if not initial else truth(initial),
        bookmarks=truth(query.get("allowWatchBookmarks", "")),
        timeout_s=integer(query.get("timeoutSeconds", "")),
    )
    causes = _watch_causes(found) if watch else _list_causes(found)
    if causes:
        raise status.invalid("ListOptions", "meta.k8s.io", "", causes)
    return found


def integer(text: str) -> int | None:
    """Return a number in a query, None for no text."""
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise status.bad_request(
            f"strconv.ParseInt: parsing {json.dumps(text)}: invalid syntax"
        ) from None


def truth(text: str) -> bool:
    """Return whether a text in a query means true: anything but "", "0" and "false"."""
    return text.lower() not in ("", "0", "false")


def _list_causes(found: ListOptions) -> list[Cause]:
    causes = []
    if found.match:
        if not found.rv:
            words = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(status.forbidden_value(_MATCH, words))
        if found.token:
            words = "resourceVersionMatch is forbidden when continue is provided"
            causes.append(status.forbidden_value(_MATCH, words))
        if found.match not in (EXACT, NOT_OLDER):
            causes.append(status.not_supported(_MATCH, found.match, (EXACT, NOT_OLDER, "")))
        if found.match == EXACT and found.rv == "0":
            words = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(status.forbidden_value(_MATCH, words))
    if found.send_initial is not None:
        words = "sendInitialEvents is forbidden for list"
        causes.append(status.forbidden_value("sendInitialEvents", words))
    return causes


def _watch_causes(found: ListOptions) -> list[Cause]:
    if found.send_initial is None:
        if not found.match:
            return []
        words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [status.forbidden_value(_MATCH, words)]
    causes = []
    if found.match != NOT_OLDER:
        words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(status.forbidden_value(_MATCH, words))
        if found.match:
            causes.append(status.not_supported(_MATCH, found.match, (NOT_OLDER,)))
    if found.token:
        words = "resourceVersionMatch is forbidden when continue is provided"
        causes.append(status.forbidden_value(_MATCH, words))
    return causes


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a part of one.

    Attributes:
        records: in the order of their keys.
        rv: the state that they are of.
        token: "" on the last page.
        remaining: how many follow, None if that is not said.
    """

    records: list[Record]
    rv: int
    token: str = ""
    remaining: int | None = None


def version(text: str) -> int:
    """Return the number of a resourceVersion of a list; 0 for none.

    Raises:
        ApiError: 400.
    """
    if text and not text.isdecimal():
        raise status.bad_request(f"invalid resource version: {bad_version(text)}")
    return int(text or 0)


def bad_version(text: str) -> str:
    """Return the words for a resourceVersion that is no number."""
    quoted = json.dumps(text)
    return (
        f"resourceVersion: Invalid value: {quoted}:"
        f" strconv.ParseUint: parsing {quoted}: invalid syntax"
    )


def page(storage: Storage, wanted: Scope, asked: ListOptions) -> Page:
    """Return the objects that a list asks for.

    The caller has waited until the storage has the resourceVersion asked for.

    Raises:
        ApiError: 400, the token is none; 410, the state asked for is forgotten.
    """
    if asked.token:
        return _next_page(storage, wanted, asked)
    rv = version(asked.rv)
    limit = 0 if asked.rv == "0" and not asked.match else asked.limit
    exact = asked.match == EXACT or (rv > 0 and limit > 0 and not asked.match)
    try:
        return _find(storage, wanted, rv if exact else None, limit)
    except HistoryForgottenError as error:
        raise status.expired(_FORGOTTEN) from error


def _next_page(storage: Storage, wanted: Scope, asked: ListOptions) -> Page:
    rv, after = decode_token(asked.token)
    if asked.rv not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")
    start = f"{wanted.namespace}/{after}" if wanted.namespace else after
    try:
        return _find(storage, wanted, None if rv < 0 else rv, asked.limit, start)
    except HistoryForgottenError as error:
        raise status.expired(_TOKEN_FORGOTTEN, encode_token(-1, after, slash=False)) from error


def _find(storage: Storage, wanted: Scope, rv: int | None, limit: int, after: str = "") -> Page:
    records, at, remaining = storage.snapshot(
        wanted.resource,
        wanted.namespace,
        rv,
        after=after,
        most=0 if wanted.selects else limit,
    )
    if not wanted.selects:
        if not remaining:
            return Page(records, at)
        return Page(records, at, _token_after(records[-1], at, wanted), remaining)
    matches = wanted.matcher()
    kept: list[Record] = []
    for index, record in enumerate(records):
        if matches(record):
            kept.append(record)
            # How many of the rest match is not known, so it is not said.
            if len(kept) == limit and index + 1 < len(records):
                return Page(kept, at, _token_after(record, at, wanted))
    return Page(kept, at)


def _token_after(record: Record, rv: int, wanted: Scope) -> str:
    return encode_token(rv, record.name if wanted.namespace else record.key)


def encode_token(rv: int, after: str, *, slash: bool = True) -> str:
    """Return the continue token for what follows a key, relative to the namespace listed.

    Source: apiserver storage/continue.go.
    """
    start = f"{'/' if slash else ''}{after}\0"
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_token(token: str) -> tuple[int, str]:
    """Return resourceVersion and key of a continue token.

    Raises:
        ApiError: 400.
    """
    words = "invalid continue token: continue key is not valid"
    try:
        padded = token + "=" * (-len(token) % 4)
        fields = json.loads(base64.urlsafe_b64decode(padded.encode()))
        rv, start = int(fields["rv"]), str(fields["start"])
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise status.bad_request(f"{words}: {error}") from error
    if fields.get("v") != "meta.k8s.io/v1":
        raise status.bad_request(f"{words}: server does not recognize this encoded version")
    if rv == 0:
        raise status.bad_request(f"{words}: incorrect encoded start resourceVersion")
    return rv, start.removeprefix("/").removesuffix("\0")
