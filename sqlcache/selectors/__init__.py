"""Label and field selectors, as Kubernetes reads and applies them.

| From | By |
|---|---|
| text, `kubectl -l` | `parse` |
| a decoded metav1.LabelSelector | `from_label_selector` |
| labels that must be equal, as in a Service | `from_labels` |
| any of these | `as_selector` |
| a field selector, `kubectl --field-selector` | `parse_field_selector` |
| requirements made one by one | `Selector([Requirement(...), ...])` |
| an object with `spec.selector` | `service_selector`, `label_selector` |

Promises
- The same texts are accepted, the same labels match and errors have the same words as in
  apimachinery 1.36.
- Selectors are immutable; threads may share them.

Flow: _lexer, _parser (text) and _sources (objects) make Requirements, which a Selector compiles
into one function (_matching). Many selectors are asked at once by a `SelectorIndex` (index).

Elsewhere: fetching what a selector matches (store).
"""

from sqlcache.selectors._parser import parse
from sqlcache.selectors._requirement import Operator, Requirement
from sqlcache.selectors._selector import EVERYTHING, NOTHING, Selector
from sqlcache.selectors._sources import (
    SelectorLike,
    as_selector,
    from_label_selector,
    from_labels,
)
from sqlcache.selectors.fields import (
    METADATA_FIELDS,
    POD_FIELDS,
    FieldGetter,
    FieldRequirement,
    FieldSelector,
    field_getter,
    parse_field_selector,
)
from sqlcache.selectors.index import SelectorIndex
from sqlcache.selectors.owners import SelectorFunc, label_selector, service_selector
from sqlcache.selectors.validation import validate_label_key, validate_label_value

__all__ = [
    "EVERYTHING",
    "METADATA_FIELDS",
    "NOTHING",
    "POD_FIELDS",
    "FieldGetter",
    "FieldRequirement",
    "FieldSelector",
    "Operator",
    "Requirement",
    "Selector",
    "SelectorFunc",
    "SelectorIndex",
    "SelectorLike",
    "as_selector",
    "field_getter",
    "from_label_selector",
    "from_labels",
    "label_selector",
    "parse",
    "parse_field_selector",
    "service_selector",
    "validate_label_key",
    "validate_label_value",
]
