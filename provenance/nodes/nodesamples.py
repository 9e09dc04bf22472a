"""What nodes did: stored samples by node and time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, select

from chimbuko.monitor.samples.nodebatch import NodeBatch, unpacked
from chimbuko.provenance.query.reader import RunReader
from chimbuko.provenance.store.tables import NODE_SAMPLES

FOREVER_US = 1 << 62


class NodeSamples:
    """The samples of a run's nodes."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def batches(
        self, begin_us: int, end_us: int, is_sum: bool = False, node: str | None = None
    ) -> Iterator[NodeBatch]:
        """Samples from around flagged calls in an interval, or sums, of one node or all; in order of time."""
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
        for key in self._reader.rows(keys):
            one = (columns.run == self._reader.run, columns.node == key.node)
            for row in self._reader.rows(select(columns.rows).where(*one, columns.sequence == key.sequence)):
                yield unpacked(row.rows)
