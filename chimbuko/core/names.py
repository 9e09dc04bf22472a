"""Names of functions, nodes, programs and files: patterns that users write for them, and how a terminal may
show them.

A pattern is exact, or has ``*`` for any text and ``?`` for any character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
)
"""Pattern of control characters, those that turn the direction of writing, ends of lines, and halves of
characters.
"""


def visible(text: str) -> str:
    """Return the text with what acts on a terminal written out, as in Python: an escape as ``\\x1b``.

    A name comes from the program that is analysed, or from a file of somebody else: raw it could colour, move
    and erase the terminal's text, answer in place of the user, or pass for another name.
    """
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escaped_json(text: str) -> str:
    """Return JSON, or YAML with its strings in double quotes, with what acts on a terminal as escapes:
    readers get the same values.

    JSON itself writes out the control characters of ASCII alone.
    """
    return _ACTING.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate: whether a name matches ``pattern``.

    All but ``*`` and ``?`` is literal, and case matters. A name equal to the pattern always matches: C++
    signatures contain ``*``.
    """
    if not {"*", "?"} & set(pattern):
        return pattern.__eq__
    first, *others = (_expression(part) for part in pattern.split("*"))
    if others:
        *middle, last = others
        # What lies between two stars is taken where it first stands, for good: to try all places of all of
        # them takes minutes for five stars and a name of 2,000 characters.
        first += "".join(f"(?>.*?{part})" for part in middle) + ".*" + last
    expression = re.compile(first, re.DOTALL)
    # No lambda: the state of a stream's process is pickled for its successor.
    return partial(_is_match, pattern, expression)


def _is_match(pattern: str, expression: re.Pattern[str], name: str) -> bool:
    return name == pattern or expression.fullmatch(name) is not None


def _expression(part: str) -> str:
    return ".".join(map(re.escape, part.split("?")))
