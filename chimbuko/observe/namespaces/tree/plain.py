"""Trees as plain JSON and YAML: values without their types. Conduit reads both as well.

A NaN and infinities, for which JSON has no words, are strings as Conduit writes them: ``"nan"``, ``"inf"``,
``"-inf"``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from chimbuko.observe.namespaces.tree.leaves import Array, Leaf, elements
from chimbuko.observe.namespaces.tree.tree import Nested, Tree, nested

_FORBIDDEN = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\ufeff\\ufffe\\uffff]")
"""Characters that JSON allows in a string, and that YAML does not, or ends a line at."""


def plain(leaf: Leaf) -> Any:
    """A leaf as JSON has it: a string, a number, a boolean, or lists of them."""
    if isinstance(leaf, (str, bool)):
        return leaf
    return numbers(elements(leaf))


def numbers(array: Array) -> Any:
    """The elements of an array as lists in each other, or of one without dimensions as a number.

    The text of a ``float32`` is as short as its own precision allows.
    """
    if array.dtype.kind != "f":
        return array.tolist()
    if array.ndim:
        return [numbers(part) for part in array]
    value = float(str(array[()]))
    return value if math.isfinite(value) else str(value)


def plain_json(tree: Tree) -> str:
    """A tree as JSON."""
    return json_text(nested((path, plain(leaf)) for path, leaf in tree))


def json_text(values: object) -> str:
    """JSON that Conduit reads, too: to find strings it takes each quote behind a backslash for a part of one,
    so that none may end in two backslashes.
    """
    return json.dumps(values, indent=2, ensure_ascii=False).replace("\\\\", "\\u005c") + "\n"


def yaml(tree: Tree) -> str:
    """A tree as YAML; keys and strings are in double quotes, so that none is taken for another type."""
    lines = list(_lines(nested((path, plain(leaf)) for path, leaf in tree), 0))
    return "\n".join(lines or ["{}"]) + "\n"


def _lines(group: Nested, depth: int) -> Iterator[str]:
    for key, value in group.items():
        begin = f"{'  ' * depth}{_quoted(key)}:"
        if isinstance(value, dict):
            yield begin
            yield from _lines(value, depth + 1)
        else:
            yield f"{begin} {_quoted(value) if isinstance(value, str) else json.dumps(value)}"


def _quoted(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
