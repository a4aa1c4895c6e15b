"""The statement that starts from one term and checks others: one SQL text per shape.

A shape is a selector without its values: whether the driving term has one label id or many, the
same for each further term, and whether anything is excluded. A shape is built with SQLAlchemy and
compiled once (some 0.5 ms); its text then runs on the driver connection, which keeps it prepared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Exists, bindparam, exists, func, select
from sqlalchemy.dialects import sqlite

from sqlcache.store._sql.schema import POSTING

_SHAPES_CACHED = 512

Shape = tuple[bool, tuple[bool, ...], bool]  # driving is many; further terms are many; excluded


@lru_cache(maxsize=_SHAPES_CACHED)
def statement(shape: Shape) -> str:
    """Return the SQL that gives the object ids as one JSON array.

    Its parameters are label ids, or JSON arrays of label ids where the shape says "many" and for
    what is excluded: the driving term, the further terms, the excluded labels, in that order.
    """
    many, further, excluded = shape
    driving = POSTING.alias("p")
    terms = [_one_of(driving.c.label_id, many=many)]
    terms += [_has(driving.c.object_id, many=each) for each in further]
    if excluded:
        terms.append(~_has(driving.c.object_id, many=True))
    query = select(func.json_group_array(driving.c.object_id)).where(*terms)
    return str(query.compile(dialect=sqlite.dialect(paramstyle="qmark")))


def _parameter() -> BindParameter[Any]:
    return bindparam(None)


def _one_of(column: ColumnElement[int], *, many: bool) -> ColumnElement[bool]:
    if many:
        return column.in_(select(func.json_each(_parameter()).table_valued("value").c.value))
    return column == _parameter()


def _has(object_id: ColumnElement[int], *, many: bool) -> Exists:
    posting = POSTING.alias()
    return exists().where(_one_of(posting.c.label_id, many=many), posting.c.object_id == object_id)
