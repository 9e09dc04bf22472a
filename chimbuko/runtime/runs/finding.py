"""Search for runs: in a folder, or by the name, id or path that a user gives.

Runs elsewhere than under ``chimbuko-runs`` are noted in ``$XDG_STATE_HOME/chimbuko/runs``: a file for each,
with its id as name and its folder as content. All of them can be removed: then runs are found by their
folders only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, RunInfo
from chimbuko.runtime.runs.namedstores import state_folder


def note(run_id: str, folder: Path) -> None:
    """Note where a run is; do nothing where that cannot be written."""
    with suppress(OSError, RuntimeError):
        notes = _notes()
        notes.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(notes / run_id, f"{folder}\n".encode())


def noted() -> dict[str, Path]:
    """Return the noted folders by the ids of their runs, by path; some of them may be gone."""
    found = {}
    with suppress(OSError, RuntimeError):
        for path in _notes().glob("[!.]*"):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text().removesuffix("\n")
                if text.startswith("/") and text.isprintable():
                    found[path.name] = Path(text)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def forget(run_id: str) -> None:
    """Remove the note of a run."""
    with suppress(OSError, RuntimeError):
        (_notes() / run_id).unlink()


def _notes() -> Path:
    return state_folder() / "runs"


def runs_in(folder: Path) -> list[RunDirectory]:
    """Return the runs in the folders of ``folder``, by path; names of folders that are being made begin with
    a dot.
    """
    return [RunDirectory(info.parent.absolute()) for info in sorted(folder.glob("[!.]*/run.json"))]


def infos_of(runs: Iterable[RunDirectory]) -> dict[RunDirectory, RunInfo]:
    """Return the description of each run; one whose folder has gone, or is damaged, is left out."""
    found = {}
    for run in runs:
        with suppress(ConfigError):
            found[run] = run.read_info()
    return found


def noted_runs() -> list[RunDirectory]:
    """Return the user's runs elsewhere that were noted and are there, by path.

    The note of a run that was removed is removed, too. One whose file system is not mounted here is only left
    out.
    """
    found = []
    for run_id, folder in noted().items():
        run = RunDirectory(folder)
        with suppress(ConfigError):
            if run.read_info().id == run_id:
                found.append(run)
                continue
        if folder.parent.is_dir():
            forget(run_id)
    return found


def find_run(path: Path | None) -> RunDirectory:
    """Return the run in the folder ``path``, or that of this name or id under ``chimbuko-runs`` or among
    those that were noted; without a path the newest under ``chimbuko-runs`` whose program could be
    started.

    Raises
    ------
    ConfigError
        There is none, or there are several of that name.
    """
    if path is None:
        found = runs_in(RUNS_FOLDER)
        if not found:
            which = "one that 'chimbuko runs' lists" if noted_runs() else "the folder of one"
            raise ConfigError(f"no run under ./{RUNS_FOLDER}; name {which}, or make one with 'chimbuko run'")
        infos = infos_of(found) or {run: run.read_info() for run in found}
        return max(infos, key=lambda run: (infos[run].has_started, infos[run].started_us))
    run = RunDirectory(path.absolute())
    if not run.info_path.exists() and path.name == str(path):
        run = _run_called(str(path)) or run
    run.read_info()
    return run


def _run_called(name: str) -> RunDirectory | None:
    """Return the run of this folder, id or name under ``chimbuko-runs``, or of this id or name elsewhere."""
    by_folder = RunDirectory((RUNS_FOLDER / name).absolute())
    if by_folder.info_path.exists():
        return by_folder
    for runs in (runs_in(RUNS_FOLDER), noted_runs()):
        found = [run for run, info in infos_of(runs).items() if name in (info.id, info.name)]
        if len(found) > 1:
            folders = ", ".join(str(run.path) for run in found)
            raise ConfigError(f"{name}: {len(found)} runs have this name; give a folder instead: {folders}")
        if found:
            return found[0]
    return None
