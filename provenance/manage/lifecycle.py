"""Folders of runs: whether a run has ended, its folder held while it is changed, and removed."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec

from chimbuko.capture.trace.discovery import STREAM_PREFIX
from chimbuko.capture.trace.tausettings import CLAIMS_FOLDER
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.manage.transfer import remove_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.runtime.process.nameholding import hold, is_held
from chimbuko.runtime.runs.directory import (
    AGENT_MARK,
    COMING_MARK,
    RESCUED,
    RunDirectory,
    RunInfo,
    claim_name,
)
from chimbuko.runtime.runs.scratch import run_of_scratch

RUNNING = "running"
DIED = "died"
"""State of a run whose processes were killed before they could note its end."""
INTERRUPTED = "interrupted"
"""State of a run that ended, or was killed, after somebody had asked it to while its program ran."""
START_S = 15.0
"""Time that the services of a new run may take until they can be seen."""
SILENT_S = 120.0
"""Services elsewhere give a sign of life every ten seconds, by their own clock."""

_FILES = (
    *(
        "provenance.sqlite*",
        "model.msgpack",
        "prior.msgpack",
        "report.json.gz",
        "broker",
        "dashboard",
        "store",
        ".*-*",
    ),
    *("*-token", "observed.msgpack", "shares/[0-9]*-*"),
    *("recorded.json", "timelines/*.spans*", "timelines/*.links*", "timelines/*.header*"),
    *("settings/adios2*.xml", "settings/tau-select.txt", "settings/streams", "settings/node"),
    *("alive", "interrupted", "statistics*", "settings/serve.json", "settings/programs.json"),
    *("settings/scratch-*.json", "logs/*.log", "logs/*.story*", f"{RESCUED}/**/*"),
    # Recorded streams that were kept.
    f"trace/**/{STREAM_PREFIX}[.-]*.bp/*",
)
"""Files that a run leaves in its folder, beside ``run.json``. The user may have other files there."""
_MARKS = (
    *(f"trace/**/{STREAM_PREFIX}[.-]*", "trace/**/*.sst"),
    *(f"trace/**/{name}" for name in (f"{CLAIMS_FOLDER}/*", AGENT_MARK, COMING_MARK)),
)
"""Files by which streams and readers found each other; who made one may still be about to remove it."""
_MADE_FOR_READERS = (".sqlite-shm",)
"""Endings of names of files that are gone when nobody reads."""


def state_of(run: RunDirectory | None, info: RunInfo) -> str:
    """Return the state of a run, as far as this node can know.

    Without its folder less is known of other nodes.
    """
    if info.state != RUNNING or is_held(claim_name(info.id)):
        return info.state
    dead = INTERRUPTED if run is not None and run.interrupted_path.exists() else DIED
    if info.host == platform.node():
        return RUNNING if time.time() - info.started_us / 1e6 < START_S else dead
    silent_s = None if run is None else silence_s(run)
    return dead if silent_s is not None and silent_s > SILENT_S else RUNNING


def silence_s(run: RunDirectory) -> float | None:
    """Return the time since the last sign of life of a run's services; None if none is seen."""
    try:
        return time.time() - run.alive_path.stat().st_mtime
    except OSError:
        return None


def left_bytes(run: RunDirectory) -> int:
    """Return the size of what a run leaves in its folder, in bytes, without a store elsewhere."""
    files = {run.info_path, *_files_of(run, _FILES)}
    return sum(path.stat().st_size for path in files if not path.name.endswith(_MADE_FOR_READERS))


def check_ended(run: RunDirectory | None, info: RunInfo) -> None:
    """Refuse a run that goes on.

    Raises
    ------
    ConfigError
        The run goes on, or did so on another node when that was last heard of.
    """
    if state_of(run, info) != RUNNING:
        return
    if info.host != platform.node():
        raise ConfigError(f"{info.name}: goes on, as far as can be seen from here; ask on {info.host}")
    raise ConfigError(f"{info.name}: the run goes on; try again when it has ended")


@contextmanager
def held(run: RunDirectory) -> Iterator[RunInfo]:
    """Hold a run that has ended, so that other commands like this one leave it alone.

    Raises
    ------
    ChimbukoError
        The run goes on, or another command is at work on it.
    """
    info = run.read_info()
    check_ended(run, info)
    with closing(hold(f"{run.path}, {info.id}")):
        yield info


def delete_run(run: RunDirectory, info: RunInfo) -> bool:
    """Remove a run's folder, and its rows in a store elsewhere; return whether all of the folder is gone.

    A deletion that is killed leaves a run that can be deleted again: ``run.json`` goes last.

    Raises
    ------
    ChimbukoError
        The store or the folder cannot be written.
    """
    url = run.used_store_url(info)
    if url != run.store_url:
        _delete_rows_elsewhere(run, info, url)
        # From here on nothing is left elsewhere, and the URL with its password may go.
        run.write_info(msgspec.structs.replace(info, store_url=run.store_url))
    path = run.path
    try:
        with _opened_folder(run.path) as folder:
            for path in _files_of(run, _FILES + _MARKS):
                _remove(folder, path.relative_to(run.path), os.unlink)
            filled = [run.path / RESCUED, run.trace]
            nested = [path for one in filled for path in (*_folders_in(one), one)]
            for path in (*nested, run.timelines, run.shares, run.logs, run.settings):
                with suppress(OSError):
                    _remove(folder, path.relative_to(run.path), os.rmdir)
            path = run.info_path
            path.unlink()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be removed ({error.strerror})") from error
    with suppress(OSError):
        run.path.rmdir()
    return not run.path.exists()


@contextmanager
def _opened_folder(path: Path | str, within: int | None = None, *, flags: int = 0) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=within)
    try:
        yield folder
    finally:
        os.close(folder)


def _remove(folder: int, path: Path, remove: Callable[..., None]) -> None:
    """Remove what lies there in an open folder, where no link leads: whose folder it is could put one in the
    place of another folder meanwhile.
    """
    with ExitStack() as opened:
        for name in path.parts[:-1]:
            folder = opened.enter_context(_opened_folder(name, folder, flags=os.O_NOFOLLOW))
        remove(path.name, dir_fd=folder)


def _delete_rows_elsewhere(run: RunDirectory, info: RunInfo, url: str) -> None:
    """Remove the rows of a run from the store that its folder names, if that is not another run's store."""
    if not url.startswith("sqlite:"):
        delete_rows(url, info.id, run.path)
        return
    path = Path(url.removeprefix("sqlite:///"))
    if not path.exists():
        return
    # A run whose folder is on a network file system has its store on its node until it ends.
    owner = run_of_scratch(path.parent)
    if owner is None or owner.path.resolve() != run.path.resolve():
        raise ConfigError(
            f"{run.path}: its run.json names {path}, which is no store of this run; remove the folder itself"
        )
    delete_rows(url, info.id)


def _files_of(run: RunDirectory, patterns: Iterable[str]) -> set[Path]:
    """Return files in the folder of a run, and none that a link to another folder leads to."""
    folder = run.path.resolve()
    found = {path for pattern in patterns for path in run.path.glob(pattern)}
    return {path for path in found if not path.is_dir() and path.parent.resolve().is_relative_to(folder)}


def _folders_in(folder: Path) -> list[Path]:
    """Return all folders in a folder, those within others first."""
    return sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)


def delete_rows(store_url: str, run_id: str, folder: Path | None = None) -> None:
    """Remove a run from a store; parameters and errors are those of ``transfer.remove_run``."""
    engine = open_for_writing(store_url)
    try:
        remove_run(engine, run_id, folder)
    finally:
        close(engine)
