"""Scratch folders on node-local storage that parts of a run work in, and notes of them in the run's own
folder.

``is_on_network`` says whether a folder is shared by nodes, where a database of ours may not live.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.core.files import contents, make_own_folder, write_atomically
from chimbuko.runtime.runs.directory import RunDirectory

MOUNTS = Path("/proc/mounts")

NETWORK_KINDS = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "glusterfs", "panfs", "pvfs2", "afs",
     "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "dvs", "wekafs"}
)  # fmt: skip
"""Kinds of file system that several nodes share: SQLite's write-ahead log does not work on them."""


def is_on_network(folder: Path, mounts: str | None = None) -> bool:
    """Return whether a folder lies on a network file system.

    Parameters
    ----------
    mounts
        Text of ``/proc/mounts``; read where it is not given.
    """
    text = MOUNTS.read_text() if mounts is None else mounts
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        _, point, kind, *_ = line.split()
        # Blanks in mount points are written in octal; of two mounts on one point the later one counts.
        kinds[point.encode().decode("unicode_escape")] = kind
    place = folder.resolve()
    for parent in (place, *place.parents):
        if str(parent) in kinds:
            return kinds[str(parent)] in NETWORK_KINDS
    return False


def ensure_temporary_files(run: RunDirectory) -> None:
    """Keep temporary files, also those of the program, in the run's folder where nothing else can be written,
    as in a container whose root is read-only.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        folder = run.path.absolute() / "temporary"
        make_own_folder(folder)
        os.environ["TMPDIR"] = str(folder)


SERVICES_PART = "services"
"""Name of the part of a run that keeps its store, where that is not in the folder of the run."""
_NOTE = "run"


def scratch_folder(run_id: str, part: str) -> Path:
    """Return the folder of one part of a run, for its owner only; the same each time, so that a part which is
    started again finds what it left.

    Raises
    ------
    ConfigError
        The folder cannot be made, or is not ours: others may write into the folder for temporary files, too.
    """
    folder = _place(run_id, part)
    make_own_folder(folder)
    return folder


def note_run(folder: Path, run: RunDirectory) -> None:
    """Note in a scratch folder which run it belongs to; errors are ignored."""
    with suppress(OSError):
        write_atomically(folder / _NOTE, os.fsencode(run.path.absolute()))


def run_of_scratch(folder: Path) -> RunDirectory | None:
    """Return the run that a scratch folder was made for, where that is noted. The run may be gone, or
    moved.
    """
    try:
        return RunDirectory(Path(os.fsdecode(contents(folder / _NOTE))))
    except OSError:
        return None


def has_left_something(run_id: str, part: str) -> bool:
    """Return whether a part of a run, which is started again, has left something that waits to be stored."""
    return _place(run_id, part).is_dir()


def saved_statistics(run: RunDirectory, run_id: str, parts: int) -> list[Path]:
    """Return the files in which the parts of the parameter server of a run that is over have saved their
    state; nothing if that of any is gone.
    """
    found = []
    for path in run.statistics_paths(parts):
        there = _place(run_id, SERVICES_PART) / path.name
        saved = [place for place in (path, there) if place.exists()]
        if not saved:
            return []
        found.append(max(saved, key=lambda place: place.stat().st_mtime_ns))
    return found


def agents_part(node: str) -> str:
    """Return the name of the agents of a node among the parts of a run."""
    return f"agents-{node}"


def _place(run_id: str, part: str) -> Path:
    return Path(tempfile.gettempdir()) / f"chimbuko-{run_id}-{part}"


class Left(msgspec.Struct, frozen=True):
    """A folder in which something waits to be stored."""

    host: str
    folder: str
    is_rescued: bool = False
    """Whether everything in the folder is in the folder of the run, too."""


class ScratchNote:
    """Note, in a run's folder, of the folder on local storage where a part of it keeps what is to be stored.

    It is there for as long as something may be left there: also after ``kill -9``, which leaves no time for a
    last note.
    """

    def __init__(self, run: RunDirectory, part: str, folder: Path) -> None:
        self._path = run.scratch_note(part)
        self._folder = folder

    def write(self, is_rescued: bool = False) -> None:
        """Write the note; errors are ignored."""
        with suppress(OSError):
            left = Left(platform.node(), str(self._folder), is_rescued)
            write_atomically(self._path, msgspec.json.encode(left))

    def remove(self) -> None:
        """Remove the note: nothing is left there any more."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def left_behind(run: RunDirectory) -> list[tuple[Path, Left]]:
    """Return the notes of a run with their contents, except for folders of this node that are gone for
    good.
    """
    found = []
    for path in sorted(run.settings.glob(run.scratch_note("*").name)):
        with suppress(OSError, msgspec.MsgspecError):
            left = msgspec.json.decode(contents(path), type=Left)
            if left.is_rescued or left.host != platform.node() or Path(left.folder).is_dir():
                found.append((path, left))
    return found


def agents_at_work(run: RunDirectory) -> list[str]:
    """Return the names of agents of a run on many nodes that have come and not ended, according to their
    notes.
    """
    before = run.scratch_note("agents-").stem
    notes = run.settings.glob(run.scratch_note("agents-*").name)
    return [f"agent-{path.stem.removeprefix(before)}" for path in sorted(notes)]


def rescued_folders(run: RunDirectory) -> list[Path]:
    """Return the folders, in that of the run, with what agents of other nodes could not deliver."""
    return sorted(run.rescued("").glob("*/"))


def forget(run: RunDirectory, folder: Path) -> None:
    """Note that nothing in this folder waits to be stored any more, and remove its rescued copy from the
    run's own folder.
    """
    folder = folder.absolute()
    for path, left in left_behind(run):
        if (left.host, left.folder) == (platform.node(), str(folder)) and not left.is_rescued:
            path.unlink(missing_ok=True)
    # Where the store is still on another node, its next copy will replace the one that this went into.
    if folder.parent == run.rescued("") and not run.scratch_note(SERVICES_PART).exists():
        run.scratch_note(f"agents-{folder.name}").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()
