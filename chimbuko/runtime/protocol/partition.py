"""Which part of the parameter server takes what: functions by name, ranks in blocks. Pure.

A part merges without the others: what is counted of a function over all ranks is in one part, and so is what
is counted of a rank over all functions.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

MOST_PARTS = 16
"""A broker carries what so many can merge, and no more."""
RANKS_TOGETHER = 64
"""A node has ranks that follow each other: their steps are one message, not one for each part."""


def part_of_function(program: int, name: str, parts: int) -> int:
    """Of a function of a program; the same on each node, and in each run."""
    return zlib.crc32(name.encode(errors="surrogatepass"), program) % parts if parts > 1 else 0


def part_of_program(program: int, parts: int) -> int:
    """Of what is compared over all ranks and functions of a program: paces, and call paths."""
    return program % parts


def part_of_name(name: str, parts: int) -> int:
    """Of an agent, or a counter."""
    return zlib.crc32(name.encode(errors="surrogatepass")) % parts


def part_of_rank(program: int, rank: int, parts: int) -> int:
    """Of a rank of a program."""
    return (program + rank // RANKS_TOGETHER) % parts


def parts_of_ranks(
    programs: npt.NDArray[np.int32], ranks: npt.NDArray[np.int32], parts: int
) -> npt.NDArray[np.int32]:
    """The same of many ranks, i4[n] of i4[n] each."""
    return (programs + ranks // RANKS_TOGETHER) % parts
