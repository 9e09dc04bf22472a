"""Times of a trace that cannot be of one recording: years lie between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import numpy as np

from chimbuko.capture.formats.readers.events import Track
from chimbuko.core.arrays import Table

PIECE_BITS: Final = 51
"""Bits of a piece of time in ns, which is 26 days: of all times that can be there are some 4,000."""
GAP_PIECES: Final = 14
"""A year without an event: no job runs that long, and a clock that begins with its node is further off."""
GAP_NS: Final = GAP_PIECES << PIECE_BITS
NS_PER_YEAR: Final = 31_556_952 * 10**9
NS_PER_S: Final = 10**9

Era = tuple[int, int]
"""First and last time in ns, roughly, between which there is no gap of a year."""


class Eras:
    """Number of the events of each track by their time, roughly."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, events: Table) -> None:
        """Count some events, in any order."""
        if not len(events):
            return
        pairs = np.stack([events["track"].astype(np.int64), events["time_ns"] >> PIECE_BITS])
        found, counts = np.unique(pairs, axis=1, return_counts=True)
        for track, piece, count in zip(*found.tolist(), counts.tolist(), strict=True):
            self._counts[track, piece] += count

    def kept(self, tracks: Sequence[Track]) -> dict[int, Era]:
        """Return the era of each process that has most of its events, the last of several."""
        pieces: dict[int, Counter[int]] = defaultdict(Counter)
        for (track, piece), count in self._counts.items():
            pieces[tracks[track].process][piece] += count
        found = {}
        for process, counts in pieces.items():
            groups = _groups(sorted(counts))
            best = max(groups, key=lambda group: (sum(counts[piece] for piece in group), group[-1]))
            found[process] = best[0] << PIECE_BITS, ((best[-1] + 1) << PIECE_BITS) - 1
        return found


def clocks_apart(eras: Mapping[int, Era]) -> str:
    """Say of which ranks the times lie years before those of others; empty if there are none."""
    pieces = {rank: era[0] >> PIECE_BITS for rank, era in eras.items()}
    groups = _groups(sorted(set(pieces.values())))
    if len(groups) < 2:
        return ""
    early = sorted(rank for rank, piece in pieces.items() if piece <= groups[-2][-1])
    years = ((groups[-1][0] - groups[-2][-1]) << PIECE_BITS) / NS_PER_YEAR
    named = ", ".join(map(str, early[:5])) + (", …" if len(early) > 5 else "")
    return f"the times of rank {named} lie {years:.0f} years before those of the others: their clocks differ"


def left_out(outside: Era, count: int, kept: Era) -> str:
    """Say which times of a trace are left out, since the others are of another year."""
    years = abs(kept[0] - outside[0]) / NS_PER_YEAR
    side = "before" if outside[0] < kept[0] else "after"
    return (
        f"{count:,} events have times around {_date(outside[0])}, {years:.0f} years {side} the others: they "
        "cannot be of one recording, and are left out"
    )


def _groups(pieces: Sequence[int]) -> list[list[int]]:
    groups = [[pieces[0]]] if pieces else []
    for before, piece in pairwise(pieces):
        if piece - before >= GAP_PIECES:
            groups.append([])
        groups[-1].append(piece)
    return groups


def _date(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / NS_PER_S, UTC).strftime("%Y-%m-%d")
