"""Stored samples of nodes, by node and time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, select, tuple_

from chimbuko.monitor.samples.nodebatch import NodeBatch, unpacked
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.tables import NODE_SAMPLES

FOREVER_US = 1 << 62
AT_ONCE = 32
"""Number of batches that one statement reads: half a MB of a large node's."""


class NodeSamples:
    """Samples of a run's nodes."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def batches(
        self, begin_us: int, end_us: int, is_sum: bool = False, node: str | None = None
    ) -> Iterator[NodeBatch]:
        """Yield samples from around flagged calls in an interval, or sums; of one node or all, by time."""
        columns = NODE_SAMPLES.c
        wanted: tuple[ColumnElement[bool], ...] = (
            columns.run == self._reader.run,
            columns.is_sum.is_(is_sum),
            columns.begin_us < end_us,
            columns.end_us > begin_us,
        )
        if node is not None:
            wanted += (columns.node == node,)
        keys = select(columns.node, columns.sequence).where(*wanted).order_by(columns.begin_us)
        found = self._reader.rows(keys)
        for first in range(0, len(found), AT_ONCE):
            some = [(key.node, key.sequence) for key in found[first : first + AT_ONCE]]
            is_one = tuple_(columns.node, columns.sequence).in_(some)
            rows = self._reader.rows(
                select(columns.node, columns.sequence, columns.rows).where(
                    columns.run == self._reader.run, is_one
                )
            )
            packed = {(row.node, row.sequence): row.rows for row in rows}
            # A run may be pruned meanwhile.
            yield from (unpacked(packed[key]) for key in some if key in packed)
