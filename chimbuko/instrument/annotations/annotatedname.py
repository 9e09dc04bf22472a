"""Names under which annotated functions of C and C++ are recorded: they say what is to be noted of a call."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from chimbuko.instrument.annotations.pointcuts import FLOWS, POINTCUTS, Advice

_SIGN = "@"
_SEPARATOR = "\t"
_LONGEST_FILE = 80
"""Of a longer path only the last part is recorded: names have 255 bytes in all."""
_INSTANCE = re.compile(r" \[(?:with )?(.*)\]$")
"""Of a template, as gcc and clang end the name of a function."""


@dataclass(frozen=True)
class AnnotatedName:
    """An annotated function."""

    advice: Advice
    file: str
    """As the compiler was given it."""
    line: int
    """On which its body begins."""
    name: str
    """Alone, as ``step``."""
    function: str = ""
    """As the compiler writes it: ``step`` in C, ``double ns::Grid::step(int)`` in C++."""

    def text(self) -> str:
        """As it is recorded, up to ``function``, which stands at its end."""
        advice = self.advice
        file = self.file if len(self.file) <= _LONGEST_FILE else os.path.basename(self.file)
        fields = (advice.pointcut, advice.scope, advice.flow, file, str(self.line), self.name)
        return _SIGN + _SEPARATOR.join(fields) + _SEPARATOR

    @property
    def short(self) -> str:
        """Without the type that it returns, as symbols are written: ``ns::Grid::step(int)``.

        A function of a template has its arguments behind it: ``largest(T, T) <T = int>``.
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
    """What a recorded name says; None for one that is no annotated function's."""
    fields = text.removeprefix(_SIGN).split(_SEPARATOR, 6)
    if not text.startswith(_SIGN) or len(fields) != 7:
        return None
    pointcut, scope, flow, file, line, name, function = fields
    if pointcut not in POINTCUTS or flow not in FLOWS or not line.isdecimal():
        return None
    return AnnotatedName(Advice(pointcut, scope, flow), file, int(line), name, function)
