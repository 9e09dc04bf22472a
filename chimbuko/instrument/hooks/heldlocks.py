"""Holder of the lock that a thread of the program waits for, by the frames of all threads.

A lock of Python does not say who has it. Whoever is inside a ``with`` statement with the same object has.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

_ACQUIRES = re.compile(r"(?:async\s+)?with\s+([\w.]+)(?:\s+as\s.*)?\s*:|(?:.*\s)?([\w.]+)\.acquire\(")
_LONGEST_LINES = 1_000
"""Maximum length of a function that is parsed, in lines: that takes 1 ms for 100 of them."""


def acquired_in(frame: FrameType) -> tuple[str, object] | None:
    """Return the lock that the line acquires at which a frame is, with its name there; None if it acquires
    none.
    """
    line = frame.f_lineno
    # Instructions that Python has added by itself, as where a loop ends, are of no line.
    source = "" if line is None else linecache.getline(frame.f_code.co_filename, line)
    found = _ACQUIRES.match(source.strip())
    name = (found[1] or found[2]) if found else ""
    lock = _value(name, frame) if name else None
    return None if lock is None else (name, lock)


def holder(lock: object, others: Iterable[FrameType]) -> FrameType | None:
    """Return the frame that has a lock, among the innermost frames of other threads; None if none of them."""
    for innermost in others:
        frame: FrameType | None = innermost
        while frame is not None:
            if any(_value(name, frame) is lock for name in _held_in(frame)):
                return frame
            frame = frame.f_back
    return None


def _held_in(frame: FrameType) -> Iterator[str]:
    """Yield names of what the ``with`` statements have around the line at which a frame is."""
    code, line = frame.f_code, frame.f_lineno
    for first, last, name in _statements(code):
        if line is not None and first <= line <= last:
            yield name


def _statements(code: CodeType) -> list[tuple[int, int, str]]:
    """Return the first and the last line inside each ``with`` statement of a function, and what it has."""
    first = code.co_firstlineno
    lines = [line for *_, line in code.co_lines() if line is not None]
    if not lines or max(lines) - first >= _LONGEST_LINES:
        return []
    source = textwrap.dedent("".join(linecache.getlines(code.co_filename)[first - 1 : max(lines)]))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return [
        (
            node.body[0].lineno + first - 1,
            (node.end_lineno or node.lineno) + first - 1,
            ast.unparse(item.context_expr),
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if isinstance(item.context_expr, ast.Name | ast.Attribute)
    ]


def _value(name: str, frame: FrameType) -> object:
    """Return the lock that a dotted name is in a frame; None without one. It runs no code of the program."""
    first, *rest = name.split(".")
    value: object = frame.f_locals.get(first, frame.f_globals.get(first))
    for attribute in rest:
        try:
            value = object.__getattribute__(value, "__dict__").get(attribute)
        except AttributeError:
            return None
    if isinstance(value, threading.Condition):
        value = vars(value).get("_lock")
    # That of multiprocessing has it as a value.
    is_lock = hasattr(type(value), "acquire") or "acquire" in getattr(value, "__dict__", ())
    return value if is_lock else None
