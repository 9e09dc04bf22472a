"""Conduit's own JSON: every leaf with its type. ``conduit::Node::load`` reads both forms.

``conduit_json`` has values as text beside their types, ``conduit_base64_json`` a schema of offsets into
bytes, which are exact. Conduit knows no booleans (they are ``uint8``) and no arrays of several dimensions
(they are flat, the last index varies fastest), and takes each group with a key ``dtype`` for a leaf.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.tree.leaves import BOOLEAN, Array, Leaf, elements
from chimbuko.observe.namespaces.tree.paths import Path, format_path
from chimbuko.observe.namespaces.tree.plain import json_text, numbers
from chimbuko.observe.namespaces.tree.tree import Nested, Tree, nested

_TYPE = "dtype"


def conduit_json(tree: Tree) -> str:
    """A tree with values beside their types.

    Raises
    ------
    ObservationError
        There is a NaN or an infinity in it: Conduit reads none of them here. Or a key ``dtype``.
    """
    _check_keys(tree)
    typed: Nested = nested((path, _typed(path, leaf)) for path, leaf in tree)
    return json_text(typed)


def conduit_base64_json(tree: Tree) -> str:
    """A tree as a schema, and all bytes of its leaves after each other in base64.

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
