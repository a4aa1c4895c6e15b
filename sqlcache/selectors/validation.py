"""What Kubernetes accepts as a label key and as a label value.

Promises
- The texts are those of Kubernetes 1.36, one for each rule broken; none means valid.
- Lengths are bytes of UTF-8, as in Go.

Source: apimachinery api/validate/content kube.go, dns.go, errors.go.
"""

from __future__ import annotations

import re

from sqlcache._gotext import byte_length

_NAME_MAX_BYTES = 63
_SUBDOMAIN_MAX_BYTES = 253

# The patterns are part of the error texts, so they keep Go's spelling.
_NAME_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORMAT = f"({_NAME_FORMAT})?"
_LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORMAT = rf"{_LABEL_FORMAT}(\.{_LABEL_FORMAT})*"

_NAME = re.compile(_NAME_FORMAT)
_VALUE = re.compile(_VALUE_FORMAT)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORMAT)

_CHARACTERS = (
    "consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character"
)
_NAME_ERROR = (
    f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc',"
    f" regex used for validation is '{_NAME_FORMAT}')"
)
_VALUE_ERROR = (
    f"a valid label must be an empty string or {_CHARACTERS} (e.g. 'MyValue',  or 'my_value', "
    f" or '12345', regex used for validation is '{_VALUE_FORMAT}')"
)
_SUBDOMAIN_ERROR = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com',"
    f" regex used for validation is '{_SUBDOMAIN_FORMAT}')"
)
_KEY_ERROR = (
    f"a valid label key {_NAME_ERROR} with an optional DNS subdomain prefix and '/'"
    " (e.g. 'example.com/MyName')"
)


def validate_label_key(text: str) -> list[str]:
    """Return the rules that a label key breaks; empty if it is valid.

    A key is a name of 1 to 63 bytes, after an optional DNS subdomain and a slash.

    Source: apimachinery content.IsLabelKey, also known as IsQualifiedName.
    """
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [_KEY_ERROR]
    errors = _prefix_errors(prefix) if slash else []
    return errors + [f"name part {error}" for error in _name_errors(name)]


def validate_label_value(text: str) -> list[str]:
    """Return the rules that a label value breaks; empty if it is valid, as "" is.

    Source: apimachinery content.IsLabelValue, also known as IsValidLabelValue.
    """
    errors = []
    if byte_length(text) > _NAME_MAX_BYTES:
        errors.append(_too_long(_NAME_MAX_BYTES))
    if not _VALUE.fullmatch(text):
        errors.append(_VALUE_ERROR)
    return errors


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text is a DNS subdomain of RFC 1123, of at most 253 bytes.

    Source: apimachinery content.IsDNS1123Subdomain.
    """
    return byte_length(text) <= _SUBDOMAIN_MAX_BYTES and bool(_SUBDOMAIN.fullmatch(text))


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    errors = []
    if byte_length(prefix) > _SUBDOMAIN_MAX_BYTES:
        errors.append(f"prefix part {_too_long(_SUBDOMAIN_MAX_BYTES)}")
    if not _SUBDOMAIN.fullmatch(prefix):
        errors.append(f"prefix part {_SUBDOMAIN_ERROR}")
    return errors


def _name_errors(name: str) -> list[str]:
    errors = []
    if not name:
        errors.append("must be non-empty")
    elif byte_length(name) > _NAME_MAX_BYTES:
        errors.append(_too_long(_NAME_MAX_BYTES))
    if not _NAME.fullmatch(name):
        errors.append(_NAME_ERROR)
    return errors


def _too_long(limit_bytes: int) -> str:
    return f"must be no more than {limit_bytes} bytes"
