"""Messages and bytes from rank to rank: a sparse matrix per program. Pure."""

from __future__ import annotations

import msgspec
import numpy as np

from chimbuko.pserver.kernels.keyed import NONE, find_new_steps
from chimbuko.pserver.keyed import RowIndex, grown
from chimbuko.tables import Int64Array
from chimbuko.views import OTHERS, SENT, TRAFFIC, Rows

MOST_PAIRS = 1 << 20
"""Of ranks with a row of their own, in all: 100 partners for each of 10,000 ranks, in 60 MB."""
GROWTH = 1.1
"""Pairs are told again when they have grown by a tenth: 10,000 ranks with eight partners each would
otherwise be 2 MB in each frame."""

_PAIR = np.dtype([*TRAFFIC.descr, ("told", np.int64)])
"""... and how many messages were told."""
_RANK = np.dtype([*TRAFFIC.descr, ("told", np.int64), ("last_step", np.int64)])
"""What a rank sent to those without a row of their own, and its last step that was counted."""


class SavedTraffic(msgspec.Struct, frozen=True, array_like=True):
    """All that is known."""

    pairs: bytes = b""
    ranks: bytes = b""


class Traffic:
    """Adds up what ranks send, each step of a rank once.

    Parameters
    ----------
    most_pairs
        What is sent between further ranks is added up by the sender alone.
    """

    def __init__(self, most_pairs: int = MOST_PAIRS) -> None:
        self._pair_index = RowIndex(most_pairs)
        self._rank_index = RowIndex()
        self._pairs = np.zeros(0, _PAIR)
        self._ranks = np.zeros(0, _RANK)
        self._waiting: list[bytes] = []

    def take(self, sent: bytes) -> None:
        """``SENT`` rows; those of a step that was counted already are left out."""
        self._waiting.append(sent)

    def changes(self) -> Rows:
        """``TRAFFIC`` rows that have grown by a tenth since they were told."""
        self._settle()
        found = []
        for rows in (self._pairs[: len(self._pair_index)], self._ranks[: len(self._rank_index)]):
            at = np.flatnonzero(rows["messages"] > GROWTH * rows["told"])
            rows["told"][at] = rows["messages"][at]
            found.append(_traffic(rows[at]))
        return np.concatenate(found)

    def everything(self) -> Rows:
        """All ``TRAFFIC`` rows."""
        self._settle()
        others = self._ranks[: len(self._rank_index)]
        others = others[others["messages"] > 0]
        return np.concatenate([_traffic(self._pairs[: len(self._pair_index)]), _traffic(others)])

    def dump(self) -> SavedTraffic:
        """For ``restore``."""
        self._settle()
        return SavedTraffic(
            self._pairs[: len(self._pair_index)].tobytes(), self._ranks[: len(self._rank_index)].tobytes()
        )

    def restore(self, saved: SavedTraffic) -> None:
        """Go on from what was dumped; for a new one."""
        self._pairs = np.frombuffer(saved.pairs, _PAIR).copy()
        self._ranks = np.frombuffer(saved.ranks, _RANK).copy()
        for index, rows in ((self._pair_index, self._pairs), (self._rank_index, self._ranks)):
            index.rows(rows["program"], rows["rank"], rows["destination"])

    def _settle(self) -> None:
        """Count what has come: all at once, since each look at an array costs more than counting a row."""
        sent = np.frombuffer(b"".join(self._waiting), SENT)
        counts = [len(told) // SENT.itemsize for told in self._waiting]
        tellings = np.repeat(np.arange(len(counts)), counts)
        self._waiting.clear()
        if not len(sent):
            return
        ranks = self._rank_index.rows(sent["program"], sent["rank"], OTHERS)
        self._reserve_ranks()
        self._ranks["program"][ranks] = sent["program"]
        self._ranks["rank"][ranks] = sent["rank"]
        is_new = np.empty(len(sent), np.bool_)
        last_steps = self._ranks["last_step"].copy()
        find_new_steps(tellings, ranks, sent["step"].copy(), last_steps, is_new)
        self._ranks["last_step"] = last_steps
        self._add(sent[is_new], ranks[is_new])

    def _add(self, sent: Rows, ranks: Int64Array) -> None:
        pairs = self._pair_index.rows(sent["program"], sent["rank"], sent["destination"])
        self._pairs = grown(self._pairs, len(self._pair_index))
        has_row = pairs != NONE
        self._pairs["program"][pairs[has_row]] = sent["program"][has_row]
        self._pairs["rank"][pairs[has_row]] = sent["rank"][has_row]
        self._pairs["destination"][pairs[has_row]] = sent["destination"][has_row]
        for rows, at, part in (
            (self._pairs, pairs[has_row], sent[has_row]),
            (self._ranks, ranks[~has_row], sent[~has_row]),
        ):
            np.add.at(rows["messages"], at, part["messages"])
            np.add.at(rows["size_bytes"], at, part["size_bytes"])

    def _reserve_ranks(self) -> None:
        held = len(self._ranks)
        self._ranks = grown(self._ranks, len(self._rank_index))
        self._ranks["destination"][held:] = OTHERS
        self._ranks["last_step"][held:] = NONE


def _traffic(rows: Rows) -> Rows:
    told = np.empty(len(rows), TRAFFIC)
    for name in TRAFFIC.names or ():
        told[name] = rows[name]
    return told
