"""Names under which annotated functions of C and C++ are recorded; they include the annotation."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from chimbuko.instrument.annotations.pointcuts import FLOWS, POINTCUTS, Advice

_SIGN = "@"
_SEPARATOR = "\t"
_LONGEST_FILE = 80
"""Longest path that is recorded whole, and not only by its last part: a name has at most 255 bytes."""
_INSTANCE = re.compile(r" \[(?:with )?(.*)\]$")
"""Arguments of a template, with which gcc and clang end the name of a function."""


@dataclass(frozen=True)
class AnnotatedName:
    """Annotated function."""

    advice: Advice
    file: str
    """Path of the source file, as it was given to the compiler."""
    line: int
    """Line on which the body begins."""
    name: str
    """Name alone, as ``step``."""
    function: str = ""
    """Name that the compiler writes: ``step`` in C, ``double ns::Grid::step(int)`` in C++."""

    def text(self) -> str:
        """Return the recorded name, up to ``function``, which is added at its end."""
        advice = self.advice
        file = self.file if len(self.file) <= _LONGEST_FILE else os.path.basename(self.file)
        fields = (advice.pointcut, advice.scope, advice.flow, file, str(self.line), self.name)
        return _SIGN + _SEPARATOR.join(fields) + _SEPARATOR

    @property
    def short(self) -> str:
        """Name without the return type, as symbols are written: ``ns::Grid::step(int)``.

        The function of a template has its arguments behind it: ``largest(T, T) <T = int>``.
        """
        instance = _INSTANCE.search(self.function)
        whole = self.function[: instance.start()] if instance else self.function
        found = re.search(rf"(?<!\w){re.escape(self.name)}\(", whole)
        at = found.start() if found else 0
        depth = 0
        while at > 0 and (whole[at - 1] != " " or depth):
            at -= 1
            depth += (whole[at] in ">)") - (whole[at] in "<(")
        short = whole[at:].lstrip("&*") or self.name
        # clang writes (const char *), and gcc (const char*).
        return re.sub(r" +([&*])", r"\1", f"{short} <{instance[1]}>" if instance else short)


def parse_name(text: str) -> AnnotatedName | None:
    """Return the annotated function of a recorded name; None for any other name."""
    fields = text.removeprefix(_SIGN).split(_SEPARATOR, 6)
    if not text.startswith(_SIGN) or len(fields) != 7:
        return None
    pointcut, scope, flow, file, line, name, function = fields
    if pointcut not in POINTCUTS or flow not in FLOWS or not line.isdecimal():
        return None
    return AnnotatedName(Advice(pointcut, scope, flow), file, int(line), name, function)
