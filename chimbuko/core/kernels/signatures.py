"""Signatures of kernels: the types of the arguments with which each is called, and for which it is compiled.

``signatures.json`` has them, as plain values. ``python -m tests.core.kernels.calls`` calls all kernels and
writes the file anew, and a test proves it current.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SIGNATURES = Path(__file__).with_name("signatures.json")
READ_ONLY = ", read"
"""Suffix of the order of an array that is not written."""

Described = str | list[Any]
"""Type as plain values: the name of a scalar; of an array its dtype, dimensions and order; of a named tuple
its class and the types of its fields."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a kernel stands in the file, and in the library."""
    return f"{function.__module__.removeprefix('chimbuko.')}.{function.__name__}"


@cache
def signatures() -> dict[str, list[Described]]:
    """Return the types of the arguments of each kernel that is called from Python, by its name."""
    known: dict[str, list[Described]] = json.loads(SIGNATURES.read_bytes())
    return known


def described(value: Any) -> Described:
    """Return the type of an argument.

    Raises
    ------
    TypeError
        Kernels do not take such values.
    """
    if isinstance(value, np.ndarray):
        order = "C" if value.flags.c_contiguous else "A"
        return ["array", _fields(value.dtype), value.ndim, order + READ_ONLY * (not value.flags.writeable)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = type(value)
        return ["tuple", f"{kind.__module__}.{kind.__qualname__}", [described(one) for one in value]]
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, np.generic):
        return value.dtype.name
    raise TypeError(f"{type(value).__name__} is no type of a kernel's argument")


def widened(one: Described, other: Described) -> Described:
    """Return the type of arguments of both types, which may differ in the order of arrays, and in whether
    they can be written.

    Raises
    ------
    TypeError
        There is no such type.
    """
    if one == other:
        return one
    if isinstance(one, list) and isinstance(other, list) and one[0] == other[0]:
        if one[0] == "array" and one[1:3] == other[1:3]:
            orders = {one[3], other[3]}
            is_read = any(order.endswith(READ_ONLY) for order in orders)
            order = "A" if any(order.startswith("A") for order in orders) else "C"
            return [*one[:3], order + READ_ONLY * is_read]
        if one[:2] == other[:2] and one[0] == "tuple":
            return [*one[:2], [widened(*fields) for fields in zip(one[2], other[2], strict=True)]]
    raise TypeError(f"a kernel is called with {one} and with {other}")


def numba_type(described: Described) -> Any:
    """Return numba's type for a type as it stands in the file."""
    from numba import from_dtype, types

    if isinstance(described, str):
        return types.boolean if described == "bool" else from_dtype(np.dtype(described))
    kind, what, *more = described
    if kind == "array":
        dimensions, order = more
        return types.Array(from_dtype(_dtype(what)), dimensions, order[0], readonly=len(order) > 1)
    module, _, name = what.rpartition(".")
    tuples: Any = types.BaseTuple
    fields = [numba_type(one) for one in more[0]]
    return tuples.from_types(fields, getattr(importlib.import_module(module), name))


def _fields(dtype: np.dtype[Any]) -> Described:
    """Return a dtype as plain values: those of a record one by one, where they are, and its size."""
    if dtype.fields is None:
        base, shape = dtype.subdtype or (dtype, ())
        if base.fields is not None:
            return [_fields(base), list(shape)]
        return [base.str, list(shape)] if shape else dtype.str
    names = list(dtype.names or ())
    return [
        [[name, _fields(dtype.fields[name][0]), dtype.fields[name][1]] for name in names],
        dtype.itemsize,
        int(dtype.isalignedstruct),
    ]


def _dtype(fields: Described) -> np.dtype[Any]:
    if isinstance(fields, str):
        return np.dtype(fields)
    if len(fields) == 2:
        return np.dtype((_dtype(fields[0]), tuple(fields[1])))
    rows, size, is_aligned = fields
    names, formats, offsets = zip(*rows, strict=True)
    return np.dtype(
        {"names": names, "formats": list(map(_dtype, formats)), "offsets": offsets, "itemsize": size},
        align=bool(is_aligned),
    )
