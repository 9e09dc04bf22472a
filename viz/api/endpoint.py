"""Endpoint of the API: a function with typed parameters and a typed answer, and how answers are encoded.

Its path, the types in its signature and its docstring are all there is: requests are read, answers encoded,
and the document for others is written from them.

Litestar and FastAPI do the same for ASGI. The page's link is flask-socketio's, in threads under WSGI, and one
server does both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.timeline.traceindex import TraceTimelines
from chimbuko.viz.api.parameters import NoParameters
from chimbuko.viz.live.feed import Feed

# Encoding of answers and errors: types that travel as arrays between Chimbuko's processes, as JSON objects.
#
# For each type there is made, once, a twin whose structs are objects. The schema of an answer is the
# twin's, and every answer is converted to the twin before it is encoded: what does not fit the schema is
# not sent. All errors of the API have one form.


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


class Missing(ChimbukoError):
    """Error: there is nothing at an address."""


@dataclass(frozen=True)
class ServedRun:
    """Run that is served."""

    provenance: Provenance
    """Stored results of the run."""
    feed: Feed
    """Live state of the run."""

    @cached_property
    def timelines(self) -> TraceTimelines:
        """Return the recorded trace of the run, as far as it lies where the run found it."""
        return TraceTimelines(self.feed.run, self.provenance)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers."""

    ok: bool = True


class StatementAnswer(Answer, frozen=True, kw_only=True):
    """SQL statement for an endpoint's question."""

    sql: str | None
    """SELECT for `chimbuko sql`; null where no statement answers just this."""


Statement = Callable[[ServedRun, Any], str | None]
"""Function that returns the SELECT for an endpoint's parameters."""
State = Callable[[ServedRun, Any], Hashable]
"""Function that returns the state of what an answer is made of; None where that may change at any time."""


@dataclass(frozen=True)
class Endpoint:
    """Address that answers GET requests, or takes what is to be written by POST requests."""

    path: str
    """Path below the API's root; parameters in braces."""
    handler: Callable[..., Any]
    parameters: type[msgspec.Struct]
    answer: Any
    """Type of the answer, or of one line of it, as JSON objects."""
    is_lines: bool
    """Whether the answer is a stream of lines, one JSON object each."""
    statement: Endpoint | None = None
    """Function that returns the same question as SQL."""
    state: State | None = None
    """Function by which its answers are kept; None if each is shared for a moment only."""
    is_write: bool = False
    """Whether it writes: its parameters come as a JSON object in the body of a POST request."""

    @property
    def name(self) -> str:
        """Name, unique among endpoints."""
        return self.handler.__name__

    @property
    def description(self) -> str:
        """Description of the endpoint; its first line is the summary."""
        return inspect.getdoc(self.handler) or ""

    def ask(self, run: ServedRun, parameters: msgspec.Struct) -> Any:
        """Return the answer, or an iterator over its lines."""
        return self.handler(run) if self.parameters is NoParameters else self.handler(run, parameters)


def get(
    path: str, statement: Statement | None = None, state: State | None = None
) -> Callable[[Callable[..., Any]], Endpoint]:
    """Return a decorator that makes an endpoint of a function of a ``ServedRun`` and, if it takes any, a
    struct of parameters.

    It returns a struct, or an iterator over structs for an answer in lines. With ``statement`` there is one
    below ``/sql``, too, that gives the same question as SQL. With ``state`` an answer that is costly to
    make is kept as long as that stays the same.
    """

    def make(handler: Callable[..., Any]) -> Endpoint:
        hints = get_type_hints(handler)
        answer = hints.pop("return")
        is_lines = get_origin(answer) is Iterator
        (line,) = get_args(answer) if is_lines else (answer,)
        parameters = next((kind for kind in hints.values() if kind is not ServedRun), NoParameters)
        twin = None if statement is None else _statement_endpoint(path, handler, parameters, statement)
        return Endpoint(path, handler, parameters, object_type(line), is_lines, twin, state)

    return make


def post(path: str) -> Callable[[Callable[..., Any]], Endpoint]:
    """Return a decorator as ``get`` does, of an endpoint that writes."""

    def make(handler: Callable[..., Any]) -> Endpoint:
        return replace(get(path)(handler), is_write=True)

    return make


def _statement_endpoint(
    path: str, handler: Callable[..., Any], parameters: type[msgspec.Struct], statement: Statement
) -> Endpoint:
    def ask(run: ServedRun, wanted: msgspec.Struct) -> StatementAnswer:
        return StatementAnswer(sql=statement(run, wanted))

    ask.__name__ = f"{handler.__name__}_statement"
    ask.__doc__ = f"The question of `{path}` as one SELECT for `chimbuko sql`."
    return Endpoint(f"/sql{path}", ask, parameters, object_type(StatementAnswer), False)
