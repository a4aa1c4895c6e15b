"""What names and labels may look like, and the names that the server makes.

Source: apimachinery util/validation, api/validation generic.go; apiserver storage/names.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from sqlcache.selectors import validate_label_key, validate_label_value
from sqlcache.testing.apiserver.status import Cause, invalid_value

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_MAX = 63
_SUBDOMAIN_MAX = 253
_BASE_MAX = 58  # 63 minus the five random characters
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words come out
_ANNOTATIONS_MAX_BYTES = 256 * 1024


def _errors(text: str, pattern: str, limit: int, words: str) -> list[str]:
    errors = [] if len(text) <= limit else [f"must be no more than {limit} bytes"]
    if not re.fullmatch(pattern, text):
        errors.append(words)
    return errors


def subdomain_errors(text: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS subdomain; empty if nothing is."""
    words = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
        " '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com',"
        f" regex used for validation is '{_SUBDOMAIN}')"
    )
    return _errors(text, _SUBDOMAIN, _SUBDOMAIN_MAX, words)


def label_errors(text: str) -> list[str]:
    """Return what is wrong with a name that must be a DNS label; empty if nothing is."""
    words = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc',"
        f" regex used for validation is '{_LABEL}')"
    )
    return _errors(text, _LABEL, _LABEL_MAX, words)


def path_segment_errors(text: str) -> list[str]:
    """Return what keeps a name from being a part of a URL's path; empty if nothing does."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def generate(base: str) -> str:
    """Return a name that starts with a base, cut to 58 characters."""
    return base[:_BASE_MAX] + "".join(secrets.choice(_ALPHABET) for _ in range(5))


def metadata_causes(meta: Mapping[str, Any]) -> list[Cause]:
    """Return what is wrong with labels, annotations and finalizers."""
    causes = []
    for key, value in sorted((meta.get("labels") or {}).items()):
        causes += [
            invalid_value("metadata.labels", key, error) for error in validate_label_key(key)
        ]
        causes += [
            invalid_value("metadata.labels", value, error) for error in validate_label_value(value)
        ]
    annotations = meta.get("annotations") or {}
    for key in sorted(annotations):
        causes += [
            invalid_value("metadata.annotations", key, error)
            for error in validate_label_key(key.lower())
        ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_MAX_BYTES:
        words = f"Too long: may not be more than {_ANNOTATIONS_MAX_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", "metadata.annotations", words))
    for finalizer in meta.get("finalizers") or []:
        causes += [
            invalid_value("metadata.finalizers", finalizer, error)
            for error in validate_label_key(finalizer)
        ]
    return causes
