"""Partition of a run's services: which part of the parameter server merges which functions, by name, and
ranks, in blocks, and which leaf server and which writer take what an agent has. Pure.

A part merges without the others: all counts of a function over all ranks are in one part, and so are those of
a rank over all functions.
"""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
import numpy.typing as npt

RANKS_TOGETHER = 64
"""Number of consecutive ranks in one part. A node has ranks that follow each other: their steps are one
message, not one for each part.
"""


def part_of_function(program: int, name: str, parts: int) -> int:
    """Return the part of a function of a program; the same on each node, and in each run."""
    return zlib.crc32(name.encode(errors="surrogatepass"), program) % parts if parts > 1 else 0


def part_of_program(program: int, parts: int) -> int:
    """Return the part for what is compared over all ranks and functions of a program: paces, and call
    paths.
    """
    return program % parts


def part_of_name(name: str, parts: int) -> int:
    """Return the part of an agent, or a counter, by its name."""
    return zlib.crc32(name.encode(errors="surrogatepass")) % parts


def writer_of_agent(name: str, writers: int) -> int:
    """Return the number of the writer that stores what an agent finds, counted from 1; 0 for the only one.

    All that an agent sends goes to the same one: acknowledgements say that what came before is stored, too.
    """
    return 1 + _share_of_agent(name, writers) if writers > 1 else 0


def leaf_of_agent(name: str, leaves: int) -> int:
    """Return the number of the leaf server that merges what an agent learns, counted from 1; 0 for none."""
    return 1 + _share_of_agent(name, leaves) if leaves else 0


def _share_of_agent(name: str, shares: int) -> int:
    # A checksum of few names that differ in one digit may be odd for all of them.
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "little") % shares


def part_of_rank(program: int, rank: int, parts: int) -> int:
    """Return the part of a rank of a program."""
    return (program + rank // RANKS_TOGETHER) % parts


def parts_of_ranks(
    programs: npt.NDArray[np.int32], ranks: npt.NDArray[np.int32], parts: int
) -> npt.NDArray[np.int32]:
    """Return the parts of many ranks, int32[n] from int32[n] each."""
    return (programs + ranks // RANKS_TOGETHER) % parts
