"""Leaves: booleans, integers, floating-point numbers, strings, and arrays of numbers or booleans.

A Python number is an ``int64`` (``uint64`` where it needs that) or a ``float64``; numbers of other types are
NumPy's scalars. What is fixed of a leaf is the type of its elements, ``float32`` say; how many there are may
change.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from chimbuko.core.errors import ObservationError

Array: TypeAlias = npt.NDArray[np.generic]
Leaf: TypeAlias = bool | int | float | str | np.generic | Array

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
"""Numeric types, as NumPy and Conduit name them."""
BOOLEAN, STRING = "bool", "string"
LARGEST_LEAF_BYTES = 1 << 20
MOST_DIMENSIONS = 8
_INT64, _UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)


def as_leaf(value: object) -> Leaf:
    """Return a value as a leaf, which shares no memory with it.

    Raises
    ------
    ObservationError
        It cannot be one.
    """
    if isinstance(value, (bool, float)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, int):
        if not _INT64.min <= value <= _UINT64.max:
            raise ObservationError(f"{value:.3e}: does not fit into 64 bits; give a floating-point number")
        return value if value <= _INT64.max else np.uint64(value)
    if isinstance(value, str):
        return _checked_text(str(value))
    if isinstance(value, (np.generic, np.ndarray, list, tuple)):
        return _checked_array(value)
    raise ObservationError(
        f"a {type(value).__name__} is no value to observe; give a number, a string, or an array of numbers"
    )


def element_type(leaf: Leaf) -> str:
    """Return the type of a leaf's elements: one of ``NUMBERS``, ``bool`` or ``string``."""
    if isinstance(leaf, str):
        return STRING
    return elements(leaf).dtype.name


def elements(leaf: Leaf) -> Array:
    """Return the elements of a leaf that is no string, as an array; a scalar has no dimension."""
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return np.asarray(leaf, np.int64)
    return np.asarray(leaf)


def is_same(left: Leaf, right: Leaf) -> bool:
    """Whether two leaves agree in type, shape and every bit: a NaN is the same as itself."""
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left == right
    one, other = elements(left), elements(right)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def joined(old: Leaf, more: Leaf) -> Leaf:
    """Return a leaf with another one of the same type appended.

    A result that is too large for a leaf loses its beginning.
    """
    if element_type(old) != element_type(more):
        return more
    if isinstance(old, str):
        text = old + str(more)
        # A character has up to four bytes.
        return text if len(text) <= LARGEST_LEAF_BYTES // 4 else text[-LARGEST_LEAF_BYTES // 4 :]
    array = np.concatenate([elements(old).ravel(), elements(more).ravel()])
    return frozen(array[-(LARGEST_LEAF_BYTES // array.itemsize) :])


def fitted(leaf: Leaf, wanted: str) -> Leaf | None:
    """Return a leaf with its elements converted to another type, or None if that would lose something."""
    if element_type(leaf) == wanted:
        return leaf
    if isinstance(leaf, str) or wanted not in NUMBERS or element_type(leaf) == BOOLEAN:
        return None
    array = elements(leaf)
    if array.dtype.kind == "f" and not wanted.startswith("float"):
        return None
    with np.errstate(all="ignore"):
        new = array.astype(wanted)
    return None if new.dtype.kind in "iu" and not _is_same_number(new, array) else _scalar_or_array(new)


def frozen(array: Array) -> Array:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array


def size_of(leaf: Leaf) -> int:
    """Return the size of a leaf in bytes, without its key."""
    return len(leaf.encode()) if isinstance(leaf, str) else elements(leaf).nbytes


def check_size(leaf: Leaf) -> None:
    """Raise ObservationError if a leaf is too large."""
    if (size := size_of(leaf)) > LARGEST_LEAF_BYTES:
        raise ObservationError(
            f"has {size:,} bytes, and a value may have {LARGEST_LEAF_BYTES:,}; publish a summary of it"
        )


def _checked_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ObservationError("the string has halves of characters; give valid Unicode") from None
    check_size(text)
    return text


def _checked_array(value: object) -> Leaf:
    try:
        array = np.array(value, order="C")
    except (ValueError, OverflowError):
        raise ObservationError("the list is no array of numbers: its parts differ in length") from None
    if array.dtype.kind == "U" and array.ndim == 0:
        return _checked_text(str(array))
    if array.dtype.name not in (*NUMBERS, BOOLEAN):
        raise ObservationError(
            f"an array of {array.dtype.name} cannot be observed; "
            f"its elements may be {', '.join(NUMBERS)} or {BOOLEAN}"
        )
    if array.ndim > MOST_DIMENSIONS:
        raise ObservationError(f"the array has {array.ndim} dimensions, and may have {MOST_DIMENSIONS}")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    check_size(array)
    return _scalar_or_array(array)


def _is_same_number(new: Array, old: Array) -> bool:
    # A value that does not fit wraps around, and may come back as itself with the other sign.
    return np.array_equal(new, old) and np.array_equal(_signs(new), _signs(old))


def _signs(array: Array) -> Array:
    return np.sign(array.astype(np.float64))


def _scalar_or_array(array: Array) -> Leaf:
    if array.ndim:
        return frozen(array)
    if array.dtype.name in ("int64", "float64", BOOLEAN):
        scalar: Leaf = array.item()
        return scalar
    generic: Leaf = array[()]
    return generic
