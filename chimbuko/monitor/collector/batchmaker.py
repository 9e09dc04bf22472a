"""Batches of rows as they leave the node, in their order, and with what the sampling costs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from chimbuko.monitor.collector.keptrows import KEYS
from chimbuko.monitor.collector.threadnames import ThreadNames
from chimbuko.monitor.samples.nodebatch import NodeBatch, Rows

MOST_KEPT_ROWS = 500_000
"""Rows around flagged calls, and losses, that leave the node in one run: 30 MB before they are packed."""
LOOKS = "looks"
"""Kind of the rows between two fast looks at a thread."""


@dataclass
class Costs:
    """CPU time of samples since the last batch, in µs."""

    period_us: int = 0
    """CPU time of those once a period, and of looks at all other processes."""
    fast_us: int = 0


class BatchMaker:
    """Maker of the batches of a node.

    Parameters
    ----------
    sequence
        Number before that of the first batch: larger than any that this node has used in the run before.
    """

    def __init__(self, node: str, sequence: int, names: ThreadNames) -> None:
        self.costs = Costs()
        self._node = node
        self._sequence = sequence
        self._names = names
        self._kept_rows = self._left_out = 0

    def admits(self, count: int) -> bool:
        """Return whether there is room for so many further rows; if not, they count as left out."""
        has_room = self._kept_rows + count <= MOST_KEPT_ROWS
        if has_room:
            self._kept_rows += count
        else:
            self._left_out += count
        return has_room

    def make(self, rows: dict[str, Rows], is_sum: bool, begin_us: int, end_us: int) -> NodeBatch:
        """Return a batch of rows by kind."""
        self._sequence += 1
        tids = {tid for kind in ("threads", LOOKS) if kind in rows for tid in rows[kind]["tid"].tolist()}
        packed = {kind: rows[kind].tobytes() if kind in rows else b"" for kind in (*KEYS, LOOKS)}
        batch = NodeBatch(
            self._node,
            self._sequence,
            is_sum,
            begin_us,
            end_us,
            self._names.of(tids),
            packed["threads"],
            packed["cores"],
            packed["others"],
            packed["states"],
            cost_us=self.costs.period_us,
            fast_cost_us=self.costs.fast_us,
            left_out=self._left_out,
            looks=packed[LOOKS],
            gpus=packed["gpus"],
        )
        self.costs.period_us = self.costs.fast_us = self._left_out = 0
        return batch
