"""Encoding of answers and errors: types that travel as arrays between Chimbuko's processes, as JSON objects.

For each type there is made, once, a twin whose structs are objects. The schema of an answer is the twin's,
and every answer is converted to the twin before it is encoded: what does not fit the schema is not sent.
All errors of the API have one form.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec


class ErrorBody(msgspec.Struct, frozen=True):
    """Error of the API."""

    ok: bool
    """False."""
    error: str
    """Message in one line: the problem, and what to do."""
    status: int
    """HTTP status of the answer."""


def error_body(status: int, text: str) -> bytes:
    """Return an error as JSON."""
    return msgspec.json.encode(ErrorBody(False, text, status))


@cache
def object_type(kind: Any) -> Any:
    """Return the twin of a type: the same fields, as objects, all of them required."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        fields = [(name, object_type(hints[name])) for name in kind.__struct_fields__]
        namespace = {"__doc__": kind.__doc__}
        return msgspec.defstruct(kind.__name__, fields, module=kind.__module__, namespace=namespace)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return reduce(or_, map(object_type, parts))
    if origin in (list, dict, tuple):
        return origin[tuple(part if part is ... else object_type(part) for part in parts)]
    return kind


def encode(value: Any, twin: Any) -> bytes:
    """Return a value of some type as JSON, by the type's twin."""
    return msgspec.json.encode(msgspec.convert(value, twin, from_attributes=True))
