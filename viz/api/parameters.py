"""Parameters of endpoints: arguments of requests, with one line for each error, and pages of lists."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, inspect
from werkzeug.datastructures import MultiDict

from chimbuko.core.arrays import RankKey
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.filters import Number

P = TypeVar("P", bound=msgspec.Struct)
Arguments = MultiDict[str, str]

MAX_LIMIT = 1000
MOST_RANKS = 256
"""Number of ranks that can be asked for together."""

RankText = Annotated[str, Meta(pattern="^[0-9]{1,9}:[0-9]{1,9}$")]
AnyRankText = Annotated[str, Meta(pattern="^([0-9]{1,9}:)?[0-9]{1,9}$")]

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Most entries in one answer.")]
Cursor = Annotated[
    Annotated[str, Meta(max_length=200, pattern="^[A-Za-z0-9_-]+$")] | None,
    Meta(description="`next` of the answer before; leave it out to begin. Its form may change."),
]
ProgramWanted = Annotated[Number | None, Meta(description="Number of a program of the workflow.")]

_INTEGER = re.compile("-?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN = 80
"""Most characters of an argument that an error repeats."""


class NoParameters(msgspec.Struct, frozen=True):
    """Parameters of endpoints that take none."""


def read_parameters(arguments: Arguments, kind: type[P]) -> P:
    """Return the arguments as a struct of this kind.

    Raises
    ------
    ConfigError
        One is unknown, missing, given too often, or not of its type.
    """
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for name in arguments:
        if name not in fields:
            # A mistyped filter must not show everything.
            raise ConfigError(f"{_short(name)}: not an argument here; known: {', '.join(fields) or 'none'}")
        values[name] = _value(fields[name], arguments.getlist(name))
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_sentence(str(error), values, fields)) from None


def parse_rank(text: str) -> tuple[int | None, int]:
    """Parse ``program:rank``, or a rank of any program: text that matches ``AnyRankText``."""
    program, colon, rank = text.rpartition(":")
    return (int(program) if colon else None), int(rank)


def rank_text(key: RankKey) -> str:
    """Return a rank as text, as the API and addresses of pages write it."""
    return f"{key[0]}:{key[1]}"


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, inspect.Field]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields}


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without description and None."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    return kind


def _value(field: inspect.Field, texts: list[str]) -> Any:
    kind = _bare(field.type)
    try:
        if isinstance(kind, inspect.ListType):
            return [_scalar(_bare(kind.item_type), text) for text in texts]
        if len(texts) > 1:
            raise ConfigError(f"{field.name}: given {len(texts)} times, at most once is possible")
        return _scalar(kind, texts[0])
    except ValueError as error:
        raise ConfigError(f"{field.name}={_short(texts[0])}: {error}") from None


def _scalar(kind: inspect.Type, text: str) -> Any:
    if isinstance(kind, inspect.IntType):
        if not _INTEGER.fullmatch(text):
            raise ValueError("not a whole number")
        return int(text)
    if isinstance(kind, inspect.FloatType):
        if not _REAL.fullmatch(text) or not math.isfinite(float(text)):
            raise ValueError("not a finite number")
        return float(text)
    if isinstance(kind, inspect.BoolType):
        if text not in ("true", "false"):
            raise ValueError("not one of true, false")
        return text == "true"
    return text


def _sentence(message: str, values: dict[str, Any], fields: dict[str, inspect.Field]) -> str:
    """Return a message of ``msgspec`` in the terms of the request."""
    if missing := re.search("missing required field `(.*)`", message):
        return f"{missing[1]}: missing; give {_description(fields[missing[1]])}"
    what, _, place = message.partition(" - at `$.")
    name = re.split(r"[.\[`]", place)[0]
    kind = _bare(fields[name].type)
    if isinstance(kind, inspect.LiteralType):
        what = f"not one of {', '.join(map(str, kind.values))}"
    elif "regex" in what:
        what = f"not {_description(fields[name])}"
    return f"{name}={_short(values[name])}: {what.replace('`', '')}"


def _description(field: inspect.Field) -> str:
    extra = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
    text = str((extra or {}).get("description", "a text without the character NUL")).rstrip(".")
    return text[0].lower() + text[1:]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


T = TypeVar("T")

ListCursor = Annotated[
    Annotated[str, Meta(pattern="^[0-9]{1,9}$")] | None,
    Meta(description="`next` of the answer before; leave it out to begin. Its form may change."),
]


class PageParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted page of a list."""

    limit: Limit = 50
    cursor: ListCursor = None


class Paged(Protocol):
    """Protocol of parameters that give the wanted page of a list."""

    @property
    def limit(self) -> int:
        """Most entries of the page."""
        ...

    @property
    def cursor(self) -> str | None:
        """Cursor at which the page begins; None for the first page."""
        ...


def page_of(rows: Sequence[T], wanted: Paged) -> tuple[list[T], str | None]:
    """Return the wanted page, and the cursor of the next one; None at the end."""
    first = int(wanted.cursor or 0)
    end = first + wanted.limit
    return list(rows[first:end]), str(end) if end < len(rows) else None


def differences(values: npt.NDArray[np.int64]) -> list[int]:
    """Return the first of ``values``, i8[n], and then the difference of each value to the one before it."""
    found: list[int] = np.diff(values, prepend=values.dtype.type(0)).tolist()
    return found
