"""Insertion of a region into each annotated function of a preprocessed source. It does no I/O."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import SIGN, AnnotatedName
from chimbuko.instrument.weaver.definitions import Definition, parse_attribute

_MARKER = re.compile(rb'^# (\d+) "((?:[^"\\\n]|\\.)*)"((?: \d)*)[^\n]*$', re.MULTILINE)
_IN_SYSTEM = b"3"


@dataclass(frozen=True)
class SourceLine:
    """Location in an original source file."""

    file: bytes
    """Path as the preprocessor writes it, with ``\\`` before each ``"`` and ``\\``."""
    number: int
    flags: bytes
    """Flags of a line marker for the same kind of file, with a blank before each."""

    def marker(self, is_silent: bool = False) -> bytes:
        """Return a line marker that says that the next line comes from here.

        Parameters
        ----------
        is_silent
            Whether compilers are to print no warnings of what follows, as in a system header.
        """
        flags = self.flags or b" 3" if is_silent else self.flags
        return b'\n# %d "%s"%s\n' % (self.number, self.file, flags)


class LineMarkers:
    """Line markers of a preprocessed source.

    Parameters
    ----------
    text
        Preprocessed source.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._markers = list(_MARKER.finditer(text))
        self._begins = [marker.end() + 1 for marker in self._markers]

    def line_at(self, at: int) -> SourceLine:
        """Return the location of a position in the text."""
        number = bisect_right(self._begins, at) - 1
        if number < 0:
            return SourceLine(b"", self._text.count(b"\n", 0, at) + 1, b"")
        line, file, flags = self._markers[number].groups()
        kept = flags[flags.index(b" 3") :] if _IN_SYSTEM in flags else b""
        return SourceLine(file, int(line) + self._text.count(b"\n", self._begins[number], at), kept)


_ATTRIBUTE = re.compile(rb'(?<![\w:])(?:__)?annotate(?:__)?\s*\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)\)')
_CONSTANT = re.compile(rb"\bconst(?:expr|eval)\b")
_COROUTINE = re.compile(rb"\bco_(?:await|yield|return)\b")
_KNOWN = "chimbuko_annotated_known"
_NUMBER = f"chimbuko_number_of(&{_KNOWN}, {{text}}, {{function}})"
_IN_C = (
    "unsigned chimbuko_annotated __attribute__((cleanup(chimbuko_left), unused)) = "
    f"chimbuko_entered({_NUMBER});"
)
_IN_CPLUSPLUS = f"::chimbuko::Region chimbuko_annotated({_NUMBER});"


class Woven:
    """Source that records its annotated functions.

    Parameters
    ----------
    text
        Preprocessed source, with ``chimbuko.h`` in it.
    definitions
        Definitions of its annotated functions, in order.
    """

    def __init__(self, text: bytes, definitions: Sequence[Definition], is_cplusplus: bool) -> None:
        self.warnings: list[str] = []
        """Warnings of functions that cannot be recorded, in the format of compilers."""
        markers = LineMarkers(text)
        statement = _IN_CPLUSPLUS if is_cplusplus else _IN_C
        # In C++ it has namespaces, parameters and arguments of templates; in C clang would add parameters.
        function = "__PRETTY_FUNCTION__" if is_cplusplus else "__func__"
        pieces = []
        until = 0
        plain = _ATTRIBUTE.sub(_blank, text)
        for definition in definitions:
            line = markers.line_at(definition.body or definition.begin)
            file = _unescaped(line.file)
            try:
                after = _checked(definition, text) + 1
                advice = parse_attribute(definition.attribute)
            except ConfigError as error:
                said = f"{definition.name} is not recorded: {error}"
                self.warnings.append(f"{file}:{line.number}: warning: {said}")
                continue
            name = AnnotatedName(advice, file, line.number, definition.name)
            region = statement.format(text=_literal(name.text()), function=function)
            code = f"static unsigned {_KNOWN}; {region}"
            pieces += [plain[until:after], line.marker(is_silent=True), code.encode(), line.marker()]
            until = after
        self.text = b"".join((*pieces, plain[until:]))


def _checked(definition: Definition, text: bytes) -> int:
    """Return the position at which the body begins.

    Raises
    ------
    ConfigError
        The function cannot be recorded.
    """
    if _COROUTINE.search(text, definition.begin, definition.end):
        raise ConfigError("it is a coroutine, whose calls do not nest")
    if definition.body is None:
        raise ConfigError("it has no body here")
    if _CONSTANT.search(text, definition.begin, definition.body):
        raise ConfigError("it is evaluated by the compiler (constexpr)")
    return definition.body


def _blank(attribute: re.Match[bytes]) -> bytes:
    """Replace an attribute by blanks: gcc warns of one that it does not know."""
    whole = attribute[0]
    return re.sub(rb"[^\n]", b" ", whole) if SIGN.encode() in attribute[1] else whole


def _unescaped(file: bytes) -> str:
    return re.sub(rb"\\(.)", rb"\1", file).decode(errors="replace")


def _literal(text: str) -> str:
    """Return a string literal of C. Bytes beyond ASCII are octal numbers, for any encoding of the source."""
    plain = {byte: chr(byte) for byte in range(32, 127) if chr(byte) not in '"\\?'}
    return '"' + "".join(plain.get(byte, f"\\{byte:03o}") for byte in text.encode()) + '"'
