"""Bodies of annotated functions in preprocessed C and C++, found by libclang.

PerfFlowAspect's attribute is ``annotate("@critical_path(pointcut='around', scope='net', flow='out')")``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clang.cindex import (
    Cursor,
    CursorKind,
    Index,
    LibclangError,
    TranslationUnit,
    TranslationUnitLoadError,
)

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import FLOWS, POINTCUTS, SIGN, Advice

_WHOLE = re.compile(rf"\s*{SIGN}\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"""\s*(\w+)\s*=\s*(?:'([^']*)'|"([^"]*)"|)\s*""")
_NONE = "NA"
"""Word of PerfFlowAspect for no scope and no flow."""


def parse_attribute(text: str) -> Advice:
    """Return the advice of an attribute; what the attribute does not name has PerfFlowAspect's default.

    Raises
    ------
    ConfigError
        The text is not such an attribute, or a value is unknown.
    """
    whole = _WHOLE.fullmatch(text)
    values = {"pointcut": POINTCUTS[0], "scope": "", "flow": ""}
    for part in filter(str.strip, whole[1].split(",")) if whole else [text]:
        argument = _ARGUMENT.fullmatch(part)
        if argument is None or argument[1] not in values:
            raise ConfigError(f"{text!r} is not understood: it takes pointcut='…', scope='…' and flow='…'")
        values[argument[1]] = argument[2] or argument[3] or ""
    values = {key: "" if value == _NONE else value for key, value in values.items()}
    if values["pointcut"] not in POINTCUTS:
        raise ConfigError(f"{text!r}: the pointcut is one of {', '.join(POINTCUTS)}")
    if values["flow"] not in FLOWS:
        raise ConfigError(f"{text!r}: the flow is one of {', '.join(filter(None, FLOWS))}")
    return Advice(**values)


_FUNCTIONS = frozenset(
    (
        *(CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE, CursorKind.CXX_METHOD),
        *(CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION),
    )
)
_EXPRESSIONS_OF_BODIES = (CursorKind.COMPOUND_STMT, CursorKind.CXX_TRY_STMT)


@dataclass(frozen=True)
class Definition:
    """Definition of an annotated function. Positions are offsets in the text, in bytes."""

    attribute: str
    """Text of the attribute, such as ``@critical_path()``."""
    name: str
    begin: int
    body: int | None
    """Position of the brace that opens the body; None if there is none, as in a coroutine."""
    end: int


def annotated_definitions(path: Path, is_cplusplus: bool, standard: str) -> list[Definition]:
    """Return all annotated definitions of a file, in order; those in system headers are left out.

    Another compiler may have written the text: libclang ignores built-in functions that it does not know.

    Parameters
    ----------
    path
        Path of a preprocessed source.
    standard
        Option for the standard of the language, or empty.

    Raises
    ------
    ConfigError
        There is no libclang, or it cannot read the source.
    """
    language = "c++-cpp-output" if is_cplusplus else "cpp-output"
    options = ["-x", language, "-ferror-limit=0"]
    text = path.read_bytes()
    try:
        unit = _parsed(path, [*options, standard] if standard else options) or _parsed(path, options)
    except LibclangError as error:
        raise ConfigError(f"libclang cannot be loaded ({error})") from error
    if unit is None:
        raise ConfigError("libclang cannot read it")
    found = {each.begin: each for each in _in(unit.cursor, text)}
    return [found[begin] for begin in sorted(found)]


def _parsed(path: Path, options: list[str]) -> TranslationUnit | None:
    """Parse a source; return None where libclang refuses, as it does for a standard newer than itself."""
    with suppress(TranslationUnitLoadError):
        return Index.create().parse(str(path), args=options)
    return None


def _in(outer: Cursor, text: bytes) -> Iterator[Definition]:
    for cursor in outer.get_children():
        if cursor.location.is_in_system_header:
            continue
        if cursor.kind in _FUNCTIONS:
            yield from _of(cursor, text)
        extent = cursor.extent
        # Bodies are searched only for annotated local classes and lambdas.
        is_body = cursor.kind in _FUNCTIONS or not cursor.kind.is_declaration()
        if not is_body or SIGN.encode() in text[extent.start.offset : extent.end.offset]:
            yield from _in(cursor, text)


def _of(function: Cursor, text: bytes) -> Iterator[Definition]:
    children = list(function.get_children())
    attributes = [one.spelling for one in children if one.kind == CursorKind.ANNOTATE_ATTR]
    attribute = next((each for each in attributes if SIGN in each), "")

    bodies = [one for one in children if one.kind in _EXPRESSIONS_OF_BODIES]
    if not attribute or not function.is_definition():
        return
    body = bodies[-1] if bodies else None
    while body is not None and body.kind != CursorKind.COMPOUND_STMT:
        body = next(iter(body.get_children()), None)
    name = function.spelling.partition("<")[0] if function.kind in _STRUCTORS else function.spelling
    extent = function.extent
    begin = None if body is None else body.extent.start.offset
    # A function written as '= default' has a body, too, without a brace.
    is_seen = begin is not None and text[begin : begin + 1] == b"{"
    yield Definition(attribute, name, extent.start.offset, begin if is_seen else None, extent.end.offset)


_STRUCTORS = (CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR)
"""Kinds of functions that have the arguments of a template in their names."""
