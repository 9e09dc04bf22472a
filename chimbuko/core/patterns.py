"""Names of functions as users write them: exact, or with ``*`` for any text and ``?`` for any character."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name is the one that ``pattern`` means.

    All but ``*`` and ``?`` is literal, and case matters. A name equal to the pattern always matches:
    C++ signatures contain ``*``.
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
    # Not a lambda: what a stream's process knows is pickled for its successor.
    return partial(_is_match, pattern, expression)


def _is_match(pattern: str, expression: re.Pattern[str], name: str) -> bool:
    return name == pattern or expression.fullmatch(name) is not None


def _expression(part: str) -> str:
    return ".".join(map(re.escape, part.split("?")))
