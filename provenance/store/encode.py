"""Encoder of a batch's records for the store: with the store's numbers for names, details in few bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Rows
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.calls.recordarrays import COUNTER, MEMBER, PARTS, PackedRecords
from chimbuko.core.calls.schema import STORED
from chimbuko.provenance.store.engine import StoreRefused
from chimbuko.provenance.store.kernels.pack import (
    COUNTS_BYTES,
    ROW_BYTES,
    pack_details,
    pack_node_states,
    renumber,
)

CALL_KEY = ("run", "program", "rank", "begin_step", "begin_row")
_FROM_HEAD = {name: field for name, field in STORED.items() if field.is_in_arrays}
_FLAGS = tuple(name for name, field in _FROM_HEAD.items() if field.dtype == "?")
_AS_THEY_ARE = tuple(name for name in _FROM_HEAD if name not in _FLAGS)
_MADE = ("run", "program", "rank", "details", "is_open", "path", "is_relabelled")
CALL_COLUMNS = (*_MADE, *_FLAGS, *_AS_THEY_ARE)
"""Columns of what ``call_rows`` gives, in order."""


class StoredRecords(msgspec.Struct, frozen=True):
    """Records of one stream, as the store holds them."""

    heads: Rows
    """Scalar fields, HEAD[records], in which functions are numbers of the store."""
    details: list[bytes]
    """Details of each record, as ``store.decode.read_details`` reads them."""
    node_states: list[bytes]
    """State of the node for each record, as ``store.decode.read_node_state`` reads it."""
    paths: list[bytes]
    """Functions of each record's call stack, innermost first, i4[frames]."""


def store_records(
    records: PackedRecords, functions: Mapping[int, int], counters: Mapping[int, int]
) -> StoredRecords:
    """Return records with the store's numbers of functions and counters in place of the stream's.

    Parameters
    ----------
    functions, counters
        Number in the store by the number in the stream.

    Raises
    ------
    StoreRefused
        The arrays do not fit together: a function or counter without a name, or too few or many rows.
    """
    try:
        heads = records.head_rows().view(np.ndarray)
        rows = {part: records.rows(part) for part in PARTS}
    except ValueError as error:
        raise StoreRefused(f"records that are cut short ({error})") from None
    for part in PARTS:
        if len(rows[part]) != heads[part].sum() or (heads[part] < 0).any():
            raise StoreRefused(f"{len(rows[part])} rows of {part} where the records say {heads[part].sum()}")
    of_functions, of_counters = _Numbers(functions), _Numbers(counters)
    heads = of_functions.put(heads, "function")
    for part, dtype in PARTS.items():
        if dtype is MEMBER:
            rows[part] = of_functions.put(rows[part], "function")
        elif dtype is COUNTER:
            rows[part] = of_counters.put(rows[part], "counter")
    node_state = rows.pop("node_state").view(np.recarray)
    arrays = [array.view(np.recarray) for array in (heads, *rows.values())]
    rows_in_all = sum(len(part) for part in rows.values())
    return StoredRecords(
        heads,
        _packed(lambda *into: pack_details(*arrays, *into), len(heads), rows_in_all),
        _packed(lambda *into: pack_node_states(arrays[0], node_state, *into), len(heads), len(node_state)),
        _split(np.ascontiguousarray(rows["frames"]["function"]), heads["frames"]),
    )


def call_rows(
    run: int, stream: StreamHealth, stored: StoredRecords, paths: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the table of calls, with ``CALL_COLUMNS``.

    ``paths`` are the numbers of ``stored.paths``.
    """
    heads = stored.heads
    return zip(
        repeat(run),
        repeat(stream.program),
        repeat(stream.rank),
        stored.details,
        (heads["exit_us"] == 0).tolist(),
        paths,
        repeat(False),
        *(heads[name].astype(np.bool_).tolist() for name in _FLAGS),
        *(heads[name].tolist() for name in _AS_THEY_ARE),
        strict=False,
    )


def node_state_rows(run: int, stream: StreamHealth, stored: StoredRecords) -> dict[tuple[int, ...], bytes]:
    """Return the state of the node by run, program, rank and step; all records of a step saw the same."""
    heads = stored.heads
    steps = zip(heads["step"].tolist(), heads["node_state"].tolist(), stored.node_states, strict=True)
    return {(run, stream.program, stream.rank, step): state for step, watched, state in steps if watched}


class _Numbers:
    """Translation of a stream's numbers into the store's."""

    def __init__(self, stored: Mapping[int, int]) -> None:
        self._known = np.array(sorted(stored), np.int64)
        self._stored = np.array([stored[number] for number in self._known.tolist()], np.int64)

    def put(self, rows: Rows, field: str) -> Rows:
        """Return a copy of ``rows`` with the store's numbers in a field."""
        renumbered = rows.copy()
        if not renumber(renumbered[field], self._known, self._stored):
            raise StoreRefused(f"a {field} without a name")
        return renumbered


def _split(functions: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> list[bytes]:
    """Split an array into pieces of these lengths."""
    ends = (functions.itemsize * np.cumsum(lengths)).tolist()
    together = functions.tobytes()
    return [together[start:end] for start, end in pairwise([0, *ends])]


def _packed(
    pack: Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], None], records: int, rows: int
) -> list[bytes]:
    """Return what a kernel writes for each record."""
    out = np.empty(COUNTS_BYTES * records + ROW_BYTES * rows, np.uint8)
    ends = np.zeros(records + 1, np.int64)
    pack(out, ends[1:])
    written = out[: ends[-1]].tobytes()
    return [written[start:end] for start, end in pairwise(ends.tolist())]
