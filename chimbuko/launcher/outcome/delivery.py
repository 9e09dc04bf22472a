"""Brings into a run's store what its agents had found and could not deliver."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimbuko.ad.handoff.namesfile import NAMES, read_names
from chimbuko.ad.handoff.segments import spools_in
from chimbuko.ad.handoff.spool import SpoolReader
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import RunInfo

MOST_BYTES = 4 << 20
"""Of what goes into one transaction."""

_batches = msgspec.msgpack.Decoder(RecordBatch)


def deliver_spools(folder: Path, info: RunInfo, store_url: str) -> tuple[int, int]:
    """Store what is in the spools under a folder; nothing is stored twice.

    Returns how many records that was, each revision of a call counted, and of how many streams.

    Raises
    ------
    StoreError
        It cannot be written.
    """
    spools = spools_in(folder)
    engine = open_for_writing(store_url)
    try:
        writer = Writer(engine, info.id)
        writer.write_run(info)
        return sum(_deliver(spool, writer) for spool in spools), len(spools)
    finally:
        close(engine)


def _deliver(spool: Path, writer: Writer) -> int:
    reader, records, program = SpoolReader(spool), 0, 0
    while frames := reader.read(MOST_BYTES):
        batches = [_batches.decode(frame) for _, frame in frames]
        writer.write(batches)
        records += sum(batch.records.count for batch in batches)
        program = batches[-1].health.program
    names = spool.parent / NAMES
    if names.exists():
        writer.write_statistics(RunStatistics({program: read_names(names).program}))
    return records
