"""Functions that the library has stopped recording, as they are called very often and are very short."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chimbuko.instrument.recorder.layout import LEFT_OUT, NAMED
from chimbuko.instrument.recorder.ring import ProcessFile, Ring

MOST_NAMED = 10


def describe_left_out(
    process: ProcessFile, rings: Sequence[Ring], names_of: Callable[[Sequence[int]], list[str]]
) -> str:
    """Describe which functions were left out, how often, and how to exclude them for good; empty for none."""
    table = process.field("left_out")
    (rows,) = np.nonzero(table)
    if not len(rows):
        return ""
    calls = sum((ring.left_out().astype(np.int64) for ring in rings), np.zeros(LEFT_OUT, np.int64))
    order = rows[np.argsort(-calls[rows])][:MOST_NAMED]
    keys = [int(key) for key in table[order]]
    names = names_of(keys)
    counted = ", ".join(f"{calls[row]} of {name}" for row, name in zip(order, names, strict=True))
    others = f", and {len(rows) - len(order)} other functions" if len(rows) > len(order) else ""
    functions = [name.partition("(")[0] for key, name in zip(keys, names, strict=True) if not key & NAMED]
    # The name of a template has commas, which separate functions in the compiler's list.
    plain = [name for name in functions if "<" not in name]
    flags = [f"-finstrument-functions-exclude-function-list={','.join(plain)}"] if plain else []
    flags += ["-finstrument-functions-exclude-file-list=/usr/include"] if len(plain) < len(functions) else []
    advice = f"; to exclude them for good compile with {' '.join(flags)}" if flags else ""
    return f"{int(calls[rows].sum())} calls ({counted}{others}){advice}"
