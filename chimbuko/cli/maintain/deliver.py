"""``chimbuko runs deliver``: stores what agents of a run had found and could not store by its end."""

from __future__ import annotations

import platform
import shlex
import sys
from contextlib import closing
from pathlib import Path

import click
import msgspec

from chimbuko.ad.handoff.spool import spools_in
from chimbuko.ad.modelsync.deltamaker import agents_in
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.core.units import number_of
from chimbuko.launcher.outcome.leftstatistics import bring_left
from chimbuko.launcher.outcome.recovery import bring_store_home, is_alive_elsewhere
from chimbuko.provenance.explain.explaining import explain_run
from chimbuko.provenance.manage.lifecycle import RUNNING, state_of
from chimbuko.runtime.process.nameholding import hold, is_held
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo, claim_name
from chimbuko.runtime.runs.finding import find_run
from chimbuko.runtime.runs.scratch import forget, left_behind, rescued_folders


@click.command("deliver", short_help="Store what agents could not deliver.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
def command(run_dir: Path, folder: Path | None) -> None:
    """Store in RUN what its agents found and learned and left in FOLDER, as services failed or the run died.

    Without FOLDER all is stored that can be reached from this node: what is in the folder of the run, and
    what is left on this node's own storage. The summary of the run names what is elsewhere; for a run that
    died 'chimbuko runs list' does. Nothing is stored twice. FOLDER stays as it is, and can be removed
    afterwards.

    \b
    Examples:
      chimbuko runs deliver chimbuko-runs/heat
      chimbuko runs deliver chimbuko-runs/heat /tmp/chimbuko-3f1c52d7a9b0-agents-node7
    """
    run = find_run(run_dir)
    _check_over(run)
    folders = [folder] if folder else _reachable(run)
    with closing(hold(f"{run.path}, {run.read_info().id}")):
        for one in folders:
            _bring(run, one)
        explain_run(run)
    if folder is None:
        _name_others(run)


def _check_over(run: RunDirectory) -> None:
    """Raise an error if the run still goes on.

    The run's own note of its end is no evidence: the disk may have been too full to write it.
    """
    info = run.read_info()
    if is_held(claim_name(info.id)):
        raise ConfigError(f"{info.name}: the run goes on; its agents deliver by themselves")
    if state_of(run, info) == RUNNING and is_alive_elsewhere(run, info):
        raise ConfigError(f"{info.name}: the run goes on, on {info.host}; its agents deliver by themselves")


def _reachable(run: RunDirectory) -> list[Path]:
    """Return the folders with something to store; that of the store itself first, as the others go into
    it.
    """
    here = [Path(left.folder) for _, left in left_behind(run) if left.host == platform.node()]
    stores = [folder for folder in here if (folder / run.store_path.name).exists()]
    found = [*stores, *(folder for folder in (*here, *rescued_folders(run)) if _holds_something(folder))]
    if not found:
        _name_others(run)
        raise ConfigError(f"{run.path}: nothing is left to be stored that can be reached from this node")
    return found


def _holds_something(folder: Path) -> bool:
    return bool(spools_in(folder) or agents_in(folder))


def _name_others(run: RunDirectory) -> None:
    for _, left in left_behind(run):
        if left.host != platform.node():
            words = shlex.join(["chimbuko", "runs", "deliver", str(run.path), left.folder])
            print(visible(f"chimbuko: more is left on {left.host}; there, do: {words}"), file=sys.stderr)


def _bring(run: RunDirectory, folder: Path) -> None:
    info = run.read_info()
    is_store = info.store_url == f"sqlite:///{folder.absolute() / run.store_path.name}"
    if not _holds_something(folder) and not is_store:
        raise ConfigError(f"{folder}: holds no findings of agents; the summary of the run names the folder")
    if is_store:
        info = _with_store_at_home(run, info, folder)
    records, spools = bring_left(run, info, folder)
    forget(run, folder)
    stored = f"{number_of(records, 'records')} of {number_of(spools, 'streams')} stored"
    if is_store:
        stored = f"the store is in {run.path} now"
    can_go = f"; {folder} can be removed" if folder.exists() else ""
    print(f"{stored}{can_go}", file=sys.stderr)


def _with_store_at_home(run: RunDirectory, info: RunInfo, folder: Path) -> RunInfo:
    """Move the store of a run that died from local storage into the run's folder."""
    try:
        bring_store_home(run, folder)
    except OSError as error:
        raise ConfigError(
            f"{run.path}: the store in {folder} cannot be copied there ({error.strerror}); make room there"
        ) from error
    info = msgspec.structs.replace(info, store_url=run.store_url)
    run.write_info(info)
    return info
