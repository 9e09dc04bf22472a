"""Encoding of publications as clients send them, and of single leaves as they are stored.

A publication is a version and then msgpack. Groups are maps, scalars are msgpack's own, and arrays and other
numbers an extension: type, dimensions, lengths (uint32), elements; all of it little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import numpy as np

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import (
    BOOLEAN,
    MOST_DIMENSIONS,
    NUMBERS,
    Array,
    Leaf,
    as_leaf,
    elements,
    frozen,
)
from chimbuko.observe.namespaces.exchange.paths import Path, format_path
from chimbuko.observe.namespaces.exchange.tree import Change, check_leaf, flattened, nested

VERSION = 1
"""Version of the encoding of publications and stored leaves; other versions are refused."""
LARGEST_BYTES = 4 << 20
"""Largest size of an encoded publication."""
_ARRAY = 1
"""Code of msgpack's extension for arrays."""
_TYPES = (*NUMBERS, BOOLEAN)


class Publication(msgspec.Struct):
    """Publication: values that a client published at one moment."""

    client: str
    """Id of the client, unique among all clients there ever were."""
    rank: int
    """Rank of the client in its program, which also chooses the instance; 0 if there are no ranks."""
    sequence: int
    """Number of the publication among the client's to this instance, from 1 on."""
    time_us: int
    """Time in µs since the epoch, by the client's clock."""
    commits: int
    """Number of commits in the publication."""
    change: Change


class ForeignPublication(ObservationError):
    """Error: the publication is of another version."""


def encode(publication: Publication) -> bytes:
    """Return a publication as it is sent.

    Raises
    ------
    ObservationError
        It is too large.
    """
    put, appended = publication.change.put, publication.change.appended
    fields = (
        publication.client,
        publication.rank,
        publication.sequence,
        publication.time_us,
        publication.commits,
        nested(put.items()),
        nested(appended.items()),
    )
    data = bytes((VERSION,)) + _encoder.encode(fields)
    if len(data) > LARGEST_BYTES:
        raise ObservationError(
            f"the publication has {len(data):,} bytes, and may have {LARGEST_BYTES:,}; publish more often"
        )
    return data


def decode(data: bytes) -> Publication:
    """Return a publication that was received, decoded.

    Raises
    ------
    ForeignPublication
        It is of another version.
    ObservationError
        It is damaged, or has in it what may not be.
    """
    body = _body(data)
    try:
        fields = _decoder.decode(body)
    except ObservationError:
        raise
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
        raise ObservationError(f"the publication is damaged ({error})") from None
    if not isinstance(fields, list) or len(fields) != 7:
        raise ObservationError("the publication is damaged (it has not seven fields)")
    client, *numbers, put, appended = fields
    if not isinstance(client, str) or not client or len(client) > 64:
        raise ObservationError("the publication is damaged (it has no client)")
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise ObservationError("the publication is damaged (its numbers are none)")
    change = Change(_leaves(put), _leaves(appended))
    _check_apart(change)
    rank, sequence, time_us, commits = numbers
    return Publication(client, rank, sequence, time_us, commits, change)


def encode_leaf(leaf: Leaf, time_us: int) -> bytes:
    """Return a leaf as it is stored, with the time at which it changed last."""
    return bytes((VERSION,)) + _encoder.encode((time_us, leaf))


def decode_leaf(data: bytes) -> tuple[Leaf, int]:
    """Return a leaf that was stored, and the time at which it changed last, in µs since the epoch.

    Raises
    ------
    ObservationError
        It is of another version, or damaged.
    """
    try:
        time_us, value = _decoder.decode(_body(data))
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise ObservationError(f"a value is damaged ({error})") from None
    if type(time_us) is not int:
        raise ObservationError("a value is damaged (it has no time)")
    return as_leaf(value), time_us


def _body(data: bytes) -> memoryview:
    if len(data) > LARGEST_BYTES:
        raise ObservationError(f"the publication has {len(data):,} bytes, and may have {LARGEST_BYTES:,}")
    if data[:1] != bytes((VERSION,)):
        version = data[0] if data else 0
        raise ForeignPublication(
            f"it is of version {version} of publications, not {VERSION}: another Chimbuko is at work"
        )
    return memoryview(data)[1:]


def _leaves(groups: object) -> dict[Path, Leaf]:
    if not isinstance(groups, Mapping):
        raise ObservationError("the publication is damaged (its leaves are in no groups)")
    leaves = {}
    for path, value in flattened(groups):
        if isinstance(value, (list, bytes)):
            raise ObservationError(f"{format_path(path)}: a {type(value).__name__} is no value to observe")
        leaf = as_leaf(value)
        check_leaf(path, leaf)
        leaves[path] = leaf
    return leaves


def _check_apart(change: Change) -> None:
    """Raise if a leaf is both set and appended to, or is inside of a leaf of the other map."""
    every = change.put.keys() | change.appended.keys()
    if len(every) < len(change.put) + len(change.appended) or any(
        path[:length] in every for path in every for length in range(1, len(path))
    ):
        raise ObservationError("the publication is damaged (a value is inside of another one)")


def _packed(value: object) -> msgspec.msgpack.Ext:
    assert isinstance(value, (np.generic, np.ndarray))
    array = elements(value)
    head = struct.pack(f"<BB{array.ndim}I", _TYPES.index(array.dtype.name), array.ndim, *array.shape)
    return msgspec.msgpack.Ext(_ARRAY, head + array.astype(array.dtype.newbyteorder("<")).tobytes())


def _unpacked(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ObservationError(f"the publication is damaged (it has an extension of code {code})")
    if len(data) < 2 or data[0] >= len(_TYPES) or data[1] > MOST_DIMENSIONS:
        _refuse_array()
    dtype = np.dtype(_TYPES[data[0]]).newbyteorder("<")
    begin = 2 + 4 * data[1]
    if len(data) < begin:
        _refuse_array()
    shape = struct.unpack_from(f"<{data[1]}I", data, 2)
    count = 1
    for length in shape:
        count *= length
    if len(data) - begin != count * dtype.itemsize:
        _refuse_array()
    array: Array = np.frombuffer(data, dtype, offset=begin).reshape(shape).astype(dtype.newbyteorder("="))
    if dtype.name == BOOLEAN and np.any(np.frombuffer(data, np.uint8, offset=begin) > 1):
        _refuse_array()
    return frozen(array) if array.ndim else array[()]


def _refuse_array() -> NoReturn:
    raise ObservationError("the publication is damaged (an array of it is no array)")


_encoder = msgspec.msgpack.Encoder(enc_hook=_packed)
_decoder = msgspec.msgpack.Decoder(ext_hook=_unpacked)
