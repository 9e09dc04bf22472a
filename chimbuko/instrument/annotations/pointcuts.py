"""Pointcuts and flows of PerfFlowAspect: how the calls of a function are recorded.

In C and C++ the name under which a function is recorded includes its annotation.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

SIGN = "@critical_path"
"""Beginning of an annotation in C and C++."""
POINTCUTS = ("around", "before", "after", "around_async", "before_async", "after_async")
FLOWS = {"": ("", ""), "in": ("f", ""), "out": ("", "s"), "inout": ("f", "s"), "outin": ("s", "f")}
"""Effects of a call on flows when it begins and when it ends, by the kind of flow: ``s`` starts a flow, and
``f`` finishes the oldest open one."""


@dataclass(frozen=True)
class Advice:
    """Advice, in PerfFlowAspect's sense: how the calls of one function are recorded."""

    pointcut: str = "around"
    """One of ``POINTCUTS``."""
    scope: str = ""
    """Scope that distinguishes the numbers of asynchronous calls."""
    flow: str = ""
    """One of ``FLOWS``."""

    @property
    def is_async(self) -> bool:
        """Whether calls may overlap, and each has a number."""
        return self.pointcut.endswith("_async")

    @property
    def phases(self) -> tuple[str, str]:
        """Phases of the events at the beginning and at the end of a call; empty if there is no event."""
        begin, end = ("b", "e") if self.is_async else ("B", "E")
        where = self.pointcut.partition("_")[0]
        return begin if where != "after" else "", end if where != "before" else ""

    def is_whole(self, is_compact: bool) -> bool:
        """Whether a call is one event (``X``) where events are compact."""
        return is_compact and self.pointcut == "around"


class Flows:
    """Flows that are open; the oldest is finished first."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: deque[int] = deque()

    def number_of(self, phase: str) -> int | None:
        """Return the number of the flow that an event starts (``s``) or finishes (``f``); None for none."""
        if phase == "s":
            number = next(self._numbers)
            self._open.append(number)
            return number
        with suppress(IndexError):
            return self._open.popleft()
        return None


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
    """Unqualified name, as ``step``."""
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
