"""Search for the ends of JSON values in text, compiled: it looks at nothing but brackets and quotes; wrapped
by ``chimbuko.capture.formats.readers.jsontext``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import inner, kernel

SPACE, TAB, NEWLINE, RETURN = 32, 9, 10, 13
QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 123, 125, 91, 93

INCOMPLETE = -1
"""Result where the text ends before the value does."""

# Cells of the progress array.
COUNT = 0
"""Cell with the number of objects found."""
NEXT = 1
"""Cell with the index at which to continue, with more text or more room."""
ENDED = 2
"""Cell that is 1 where the array has ended."""
STRAY = 3
"""Cell with the number of pieces of text between objects that are neither white space nor commas; added to.
"""
PROGRESS_CELLS = 4


@kernel
def find_objects(
    text: npt.NDArray[np.uint8],
    bounds: npt.NDArray[np.int64],
    progress: npt.NDArray[np.int64],
) -> None:
    """Find the objects of a JSON array, from ``progress[NEXT]`` on.

    Parameters
    ----------
    text
        Text inside the array, uint8[n].
    bounds
        Receives begin and end of each complete object, int64[m, 2].
    progress
        int64[PROGRESS_CELLS].
    """
    at = progress[NEXT]
    count = 0
    is_stray = False
    while at < len(text) and count < len(bounds):
        byte = text[at]
        if byte == OPEN_BRACE:
            end = value_end(text, at)
            if end == INCOMPLETE:
                break
            bounds[count, 0] = at
            bounds[count, 1] = end
            count += 1
            at = end
            is_stray = False
            continue
        if byte == CLOSE_BRACKET:
            progress[ENDED] = 1
            at += 1
            break
        if _is_space(byte) or byte == COMMA:
            is_stray = False
        elif not is_stray:
            is_stray = True
            progress[STRAY] += 1
        at += 1
    progress[COUNT] = count
    progress[NEXT] = at


@kernel
def value_end(text: npt.NDArray[np.uint8], begin: int) -> int:
    """Return the end of the JSON value that begins at ``begin``, or ``INCOMPLETE``.

    A number or word ends only where something follows it.
    """
    first = text[begin]
    if first == QUOTE:
        return _string_end(text, begin)
    at = begin
    if first != OPEN_BRACE and first != OPEN_BRACKET:
        while at < len(text):
            byte = text[at]
            if byte in (COMMA, CLOSE_BRACE, CLOSE_BRACKET) or _is_space(byte):
                return at
            at += 1
        return INCOMPLETE
    depth = 0
    while at < len(text):
        byte = text[at]
        if byte == QUOTE:
            at = _string_end(text, at)
            if at == INCOMPLETE:
                return INCOMPLETE
            continue
        if byte in (OPEN_BRACE, OPEN_BRACKET):
            depth += 1
        elif byte in (CLOSE_BRACE, CLOSE_BRACKET):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return INCOMPLETE


@inner
def _string_end(text: npt.NDArray[np.uint8], begin: int) -> int:
    at = begin + 1
    while at < len(text):
        byte = text[at]
        if byte == BACKSLASH:
            at += 2
        elif byte == QUOTE:
            return at + 1
        else:
            at += 1
    return INCOMPLETE


@inner
def _is_space(byte: int) -> bool:
    return byte in (SPACE, NEWLINE, RETURN, TAB)
