"""Address at which a binary was loaded, deduced from the addresses of its functions alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import UInt64Array

PAGE = 4096
"""Alignment of binaries in memory; larger pages are multiples of this."""


def deduce_base(addresses: Iterable[int], entries: UInt64Array, is_fixed: bool) -> int | None:
    """Return the only base with which a function begins at every address; None if there is none, or several.

    Parameters
    ----------
    addresses
        Addresses in memory at which functions begin.
    entries
        Addresses in the binary at which functions begin, sorted.
    is_fixed
        Whether the binary has a fixed address in memory.
    """
    bases: UInt64Array | None = np.zeros(1, np.uint64) if is_fixed else None
    for address in sorted(set(addresses)):
        if bases is None:
            before = entries[entries <= np.uint64(address)]
            bases = np.unique(np.uint64(address) - before)
            bases = bases[bases % np.uint64(PAGE) == 0]
        bases = bases[_are_in(np.uint64(address) - bases, entries)]
    return int(bases[0]) if bases is not None and len(bases) == 1 else None


def _are_in(values: UInt64Array, held: UInt64Array) -> npt.NDArray[np.bool_]:
    """Return which values a sorted array contains."""
    at = np.searchsorted(held, values)
    found: npt.NDArray[np.bool_] = at < len(held)
    found[found] = held[at[found]] == values[found]
    return found
