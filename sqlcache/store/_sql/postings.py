"""Postings: which object has which label, as what SQL takes.

Elsewhere: which ones come and go (difference), how they are written (batch_trigger), how they
answer selectors (selection).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlcache.store._sql.counted import to_json

Postings = Mapping[int, Sequence[int]]  # object ids by label id; none is empty

# Both ids as one number, so that a batch is one flat array: SQLite reads an array of arrays in
# twice the time. Ids are never given twice, so after years of changes they are too long for that.
_LABEL_BITS, _OBJECT_BITS = 31, 32
_PAIRS = f"SELECT value >> {_OBJECT_BITS}, value & {2**_OBJECT_BITS - 1} FROM json_each({{}})"
_LONG_PAIRS = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({})"
_ADD = "INSERT INTO posting (label_id, object_id) {}"
_REMOVE = "DELETE FROM posting WHERE (label_id, object_id) IN ({})"

COLUMNS = ("removed", "added")
WRITES = (_REMOVE.format(_PAIRS.format("NEW.removed")), _ADD.format(_PAIRS.format("NEW.added")))
"""What writes postings from columns of NEW."""

REMOVE_LONG = _REMOVE.format(_LONG_PAIRS.format("?"))
ADD_LONG = _ADD.format(_LONG_PAIRS.format("?"))


def flat(postings: Postings) -> tuple[str | None, str | None]:
    """Return what the column of some postings takes, or what the statement for long ids takes.

    They are in key order, which fills pages from left to right.
    """
    if not postings:
        return None, None
    if max(postings) < 2**_LABEL_BITS and max(map(max, postings.values())) < 2**_OBJECT_BITS:
        numbers = [
            label_id << _OBJECT_BITS | object_id
            for label_id, object_ids in postings.items()
            for object_id in object_ids
        ]
        numbers.sort()
        return to_json(numbers), None
    return None, to_json(
        sorted((label_id, each) for label_id, ids in postings.items() for each in ids)
    )
