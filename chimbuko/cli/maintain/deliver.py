"""``chimbuko deliver``: stores what agents of a run had found and could not store by its end."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import click
import msgspec

from chimbuko.ad.handoff.namesfile import NAMES, read_names
from chimbuko.ad.spool.segments import spools_in
from chimbuko.ad.spool.spool import SpoolReader
from chimbuko.errors import ConfigError
from chimbuko.launcher.outcome.recovery import bring_store_home
from chimbuko.process.lifetime import hold, is_held
from chimbuko.protocol.messages import RecordBatch, RunStatistics
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runs.directory import RunDirectory, RunInfo, claim_name, find_run
from chimbuko.runs.scratch import forget
from chimbuko.units import number_of

MOST_BYTES = 4 << 20
"""Of what goes into one transaction."""

_batches = msgspec.msgpack.Decoder(RecordBatch)


@click.command("deliver", short_help="Store findings that were left in an agent's folder.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
def command(run_dir: Path, folder: Path) -> None:
    """Store in RUN the findings that its agents left in FOLDER, since the store failed or the run died.

    The summary of the run names the folder and its node; for a run that died 'chimbuko runs' does. Nothing is
    stored twice. FOLDER stays as it is, and can be removed afterwards.

    \b
    Examples:
      chimbuko deliver chimbuko-runs/heat /tmp/chimbuko-3f1c52d7a9b0-agents-node7
    """
    run = find_run(run_dir)
    spools = spools_in(folder)
    info = run.read_info()
    is_store = info.store_url == f"sqlite:///{folder.absolute() / run.store_path.name}"
    if not spools and not is_store:
        raise ConfigError(f"{folder}: holds no findings of agents; the summary of the run names the folder")
    # Not what the run notes of its end: the disk for that may have been full, too.
    if is_held(claim_name(info.id)):
        raise ConfigError(f"{info.name}: the run goes on; its agents deliver by themselves")
    with closing(hold(f"{run.path}, {info.id}")):
        if is_store:
            info = _with_store_at_home(run, info, folder)
        engine = open_for_writing(run.used_store_url(info))
        try:
            writer = Writer(engine, info.id)
            writer.write_run(info)
            records = sum(_deliver(spool, writer) for spool in spools)
        finally:
            close(engine)
        forget(run, folder)
    stored = f"{number_of(records, 'records')} of {number_of(len(spools), 'streams')} stored"
    if is_store:
        stored = f"the store is in {run.path} now"
    print(f"{stored}; {folder} can be removed", file=sys.stderr)


def _with_store_at_home(run: RunDirectory, info: RunInfo, folder: Path) -> RunInfo:
    """The store of a run that died, which was on local storage, comes into its folder."""
    try:
        bring_store_home(run, folder)
    except OSError as error:
        raise ConfigError(
            f"{run.path}: the store in {folder} cannot be copied there ({error.strerror}); make room there"
        ) from error
    info = msgspec.structs.replace(info, store_url=run.store_url)
    run.write_info(info)
    return info


def _deliver(spool: Path, writer: Writer) -> int:
    """Store what is in one spool; returns how many records that was, each revision of a call counted."""
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
