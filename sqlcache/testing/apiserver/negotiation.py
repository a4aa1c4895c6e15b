"""Which form of an answer a client accepts.

JSON is served, whole objects or their metadata alone, and aggregated discovery. Tables, YAML and
protobuf are not: 406, unless the client takes plain JSON as well, as kubectl does.

Source: apiserver endpoints/handlers/negotiation.
"""

from __future__ import annotations

from enum import Enum

from sqlcache.testing.apiserver import status

_JSON = frozenset({"application/json", "application/*", "*/*"})
_PARTIAL = ("PartialObjectMetadata", "meta.k8s.io", "v1")
_PARTIAL_LIST = ("PartialObjectMetadataList", "meta.k8s.io", "v1")
AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")


class Form(Enum):
    """The forms of an answer."""

    WHOLE = "whole"
    METADATA = "metadata"
    AGGREGATED = "aggregated"


def choose(accept: str, *, collection: bool = False, discovery: bool = False) -> Form:
    """Return the first form in an Accept header that is served.

    Args:
        accept: the header; "" means anything.
        collection: a list is asked for, not an object or a watch.
        discovery: the path is /api or /apis.

    Raises:
        ApiError: 406.
    """
    json_seen = False
    for clause in (accept or "*/*").split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media.lower() not in _JSON:
            continue
        json_seen = True
        named = dict(part.partition("=")[::2] for part in parameters)
        if not named.get("as"):
            return Form.WHOLE
        wanted = (named["as"], named.get("g", ""), named.get("v", ""))
        if discovery and wanted == _AGGREGATED:
            return Form.AGGREGATED
        if not discovery and wanted == (_PARTIAL_LIST if collection else _PARTIAL):
            return Form.METADATA
    if json_seen:
        raise status.not_acceptable_variant()
    raise status.not_acceptable()
