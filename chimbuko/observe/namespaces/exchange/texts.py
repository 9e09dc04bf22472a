"""Texts as which a tree can be written: JSON, YAML and Conduit's own JSON, by name.

Plain JSON and YAML have values without their types. Conduit reads both as well. A NaN and
infinities, for which JSON has no words, are strings as Conduit writes them: ``"nan"``, ``"inf"``,
``"-inf"``.

Conduit's own JSON has every leaf with its type. ``conduit::Node::load`` reads both forms.
``conduit_json`` has values as text beside their types, ``conduit_base64_json`` a schema of offsets
into bytes, which are exact. Conduit knows no booleans (they are ``uint8``) and no arrays of several
dimensions (they are flat, the last index varies fastest), and takes each group with a key ``dtype``
for a leaf.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import BOOLEAN, Array, Leaf, elements
from chimbuko.observe.namespaces.exchange.paths import Path, format_path
from chimbuko.observe.namespaces.exchange.tree import Nested, Tree, nested

_FORBIDDEN = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\ufeff\\ufffe\\uffff]")
"""Characters that JSON allows in a string, and that YAML does not allow, or takes for the end of a line."""


def plain(leaf: Leaf) -> Any:
    """Return a leaf as JSON has it: a string, a number, a boolean, or lists of them."""
    if isinstance(leaf, (str, bool)):
        return leaf
    return numbers(elements(leaf))


def numbers(array: Array) -> Any:
    """Return the elements of an array as nested lists, or of one without dimensions as a number.

    The text of a ``float32`` is as short as its own precision allows.
    """
    if array.dtype.kind != "f":
        return array.tolist()
    if array.ndim:
        return [numbers(part) for part in array]
    value = float(str(array[()]))
    return value if math.isfinite(value) else str(value)


def plain_json(tree: Tree) -> str:
    """Return a tree as JSON."""
    return json_text(nested((path, plain(leaf)) for path, leaf in tree))


def json_text(values: object) -> str:
    """Return JSON that Conduit reads, too: to find strings it takes each quote behind a backslash for a part
    of one, so that none may end in two backslashes.
    """
    return json.dumps(values, indent=2, ensure_ascii=False).replace("\\\\", "\\u005c") + "\n"


def yaml(tree: Tree) -> str:
    """Return a tree as YAML; keys and strings are in double quotes, so that none is taken for another
    type.
    """
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


_TYPE = "dtype"


def conduit_json(tree: Tree) -> str:
    """Return a tree with values beside their types.

    Raises
    ------
    ObservationError
        There is a NaN or an infinity in it: Conduit reads none of them here. Or a key ``dtype``.
    """
    _check_keys(tree)
    typed: Nested = nested((path, _typed(path, leaf)) for path, leaf in tree)
    return json_text(typed)


def conduit_base64_json(tree: Tree) -> str:
    """Return a tree as a schema, and all bytes of its leaves after each other in base64.

    Raises
    ------
    ObservationError
        There is a key ``dtype`` in it.
    """
    _check_keys(tree)
    data = bytearray()
    schemas = []
    # Conduit lays leaves out in the order of its schema.
    for path, leaf in sorted(tree, key=lambda entry: entry[0]):
        raw, schema = _raw(leaf)
        schemas.append((path, {**schema, "offset": len(data)}))
        data += raw
    whole = {"schema": nested(schemas), "data": {"base64": base64.b64encode(data).decode()}}
    return json_text(whole)


def _check_keys(tree: Tree) -> None:
    for path, _ in tree:
        if _TYPE in path:
            raise ObservationError(
                f"{format_path(path)}: has the key {_TYPE!r}, by which Conduit's own JSON knows a leaf; "
                "write json or yaml"
            )


def _typed(path: Path, leaf: Leaf) -> Any:
    if isinstance(leaf, str):
        # Conduit reads an escape once more than JSON does.
        escaped = leaf.replace("\\", r"\\")
        return {
            _TYPE: "char8_str",
            "number_of_elements": len(leaf.encode()) + 1,
            "value": escaped,
        }
    array = _array(leaf)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ObservationError(
            f"{format_path(path)}: has a NaN or an infinity, for which conduit_json has no word; "
            "write conduit_base64_json"
        )
    values = numbers(array.ravel())
    return {
        _TYPE: array.dtype.name,
        "number_of_elements": array.size,
        "value": values if array.size != 1 else values[0],
    }


def _raw(leaf: Leaf) -> tuple[bytes, dict[str, Any]]:
    if isinstance(leaf, str):
        # As in C, with a 0 at its end.
        raw, name, size = leaf.encode() + b"\0", "char8_str", 1
    else:
        array = _array(leaf)
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        name, size = array.dtype.name, array.dtype.itemsize
    return raw, {
        _TYPE: name,
        "number_of_elements": len(raw) // size,
        "stride": size,
        "element_bytes": size,
        "endianness": "little",
    }


def _array(leaf: Leaf) -> Array:
    array = elements(leaf)
    return array.astype(np.uint8) if array.dtype.name == BOOLEAN else array


FORMATS: Mapping[str, Callable[[Tree], str]] = {
    "yaml": yaml,
    "json": plain_json,
    "conduit_json": conduit_json,
    "conduit_base64_json": conduit_base64_json,
}
"""Formats by name, as Conduit's protocols are called; the first is the default, as it is SOMA's."""
