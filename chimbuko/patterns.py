"""Names of functions as users write them: exact, or with ``*`` for any text and ``?`` for any character."""

from __future__ import annotations

import re
from collections.abc import Callable


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name is the one that ``pattern`` means.

    All but ``*`` and ``?`` is literal, and case matters. A name equal to the pattern always matches:
    C++ signatures contain ``*``.
    """
    if not {"*", "?"} & set(pattern):
        return pattern.__eq__
    parts = (
        ".*" if part == "*" else "." if part == "?" else re.escape(part)
        for part in re.split("([*?])", pattern)
    )
    expression = re.compile("".join(parts), re.DOTALL)
    return lambda name: name == pattern or expression.fullmatch(name) is not None
