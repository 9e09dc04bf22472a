"""Recovery of findings that a run that died has left in folders on its nodes' own storage.

They are brought into the run's store.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import time
from pathlib import Path

import msgspec

from chimbuko.ad.handoff.namesfile import NAMES, read_names
from chimbuko.ad.handoff.spool import SpoolReader, spools_in
from chimbuko.core.files import is_own_folder, replace
from chimbuko.launcher.outcome.progress import say
from chimbuko.provenance.manage.lifecycle import DIED, INTERRUPTED, RUNNING, silence_s, state_of
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RecordBatch, RunStatistics
from chimbuko.runtime.runs.directory import FAILED, RunDirectory, RunInfo
from chimbuko.runtime.runs.scratch import left_behind, rescued_folders, run_of_scratch

MOST_BYTES = 4 << 20
"""Largest amount of records in one transaction, in bytes."""

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


WATCH_S = 25.0
"""Services give a sign of life every ten seconds."""
_KILLED = {
    DIED: "died: its processes were killed before its end",
    INTERRUPTED: "was interrupted: asked to end, and killed before it had",
}


def recovery_lines(run: RunDirectory, info: RunInfo) -> list[str]:
    """Return lines for the user of a run that is over but not all stored: what happened, and what to do."""
    state = state_of(run, info)
    if state == RUNNING:
        return []
    left = [one for _, one in left_behind(run)]
    lines = []
    if rescued := rescued_folders(run):
        nodes = ", ".join(folder.name for folder in rescued)
        command = shlex.join(["chimbuko", "runs", "deliver", str(run.path)])
        lines.append(
            f"{info.name}: what was found on {nodes} waits in its folder to be stored; do: {command}"
        )
    for one in left:
        if not one.is_rescued:
            command = shlex.join(["chimbuko", "runs", "deliver", str(run.path), one.folder])
            lines.append(f"{info.name}: not all that was found is stored; on {one.host}, do: {command}")
    if state in _KILLED and info.state == RUNNING:
        stored = "" if lines else "; what was found until then is stored"
        lines.insert(0, f"{info.name}: the run {_KILLED[state]}{stored}")
    return lines


def note_failed_start(run: RunDirectory, exit_code: int | None = None) -> None:
    """Note that the analysis of a run has not begun: nothing was found, so nothing waits to be stored.

    Parameters
    ----------
    exit_code
        Exit code of the program that ran without it; None if there was none.
    """
    for note, left in left_behind(run):
        folder = Path(left.folder)
        # A note may name any folder; one that was made for this run names the run.
        made_for = run_of_scratch(folder) if is_own_folder(folder) else None
        if made_for is not None and made_for.path == run.path.absolute():
            shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)
    ended_us = time.time_ns() // 1000
    info = run.read_info()
    run.write_info(msgspec.structs.replace(info, state=FAILED, ended_us=ended_us, exit_code=exit_code))


def is_alive_elsewhere(run: RunDirectory, info: RunInfo) -> bool:
    """Whether the services of a run, on another node, give a sign of life: that is watched for a while."""
    if info.host == platform.node():
        return False
    say(f"watching for {WATCH_S:.0f} s whether the services on {info.host} live")
    before = silence_s(run)
    time.sleep(WATCH_S)
    after = silence_s(run)
    return before is not None and after is not None and after < before + WATCH_S / 2


def bring_store_home(run: RunDirectory, scratch: Path) -> None:
    """Copy the store of a run on a network file system, which was on local storage, into its folder; and what
    its parameter server has saved.

    Raises
    ------
    OSError
        It cannot be copied; what was in the folder is as it was.
    """
    # With what was put aside because it was damaged. Its log first: with the file itself the store is there.
    files = sorted(scratch.glob(f"{run.store_path.name}*"), reverse=True)
    (whole,) = run.statistics_paths(1)
    for path in (*scratch.glob(f"{whole.name}*"), *files):
        copy = run.path / f"{path.name}.tmp"
        shutil.copyfile(path, copy)
        # What it was copied from goes next.
        replace(copy, run.path / path.name, is_durable=True)
