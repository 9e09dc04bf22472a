"""Copies of spools onto shared storage, since a node's own may not be reached any more when the job has
ended.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from chimbuko.ad.handoff.spool import locked, spools_in


class SpoolCopies:
    """Copies of the spools under a folder, kept up to date while these are written, shipped and shortened.

    Parameters
    ----------
    folder
        Folder of an agent's streams.
    place
        Folder that gets the copies, in folders of the same names.
    beside
        Name of a file beside a stream's spool that goes with it.
    others
        Pattern of further files under the folder that go with them.
    """

    def __init__(self, folder: Path, place: Path, beside: str, others: str) -> None:
        self._folder = folder
        self._place = place
        self._beside = beside
        self._others = others
        self._copied: dict[Path, tuple[int, int]] = {}

    def keep_up(self) -> None:
        """Copy what is new, and remove what was delivered meanwhile.

        Raises
        ------
        OSError
            It cannot be written; what was copied before stays.
        """
        wanted = self._keep_up_with(self._folder.glob(self._others))
        for spool in spools_in(self._folder):
            with locked(spool):
                wanted |= self._keep_up_with((*spool.iterdir(), spool.parent / self._beside))
        for path in self._copied.keys() - wanted:
            (self._place / path).unlink(missing_ok=True)
            del self._copied[path]

    def _keep_up_with(self, paths: Iterable[Path]) -> set[Path]:
        """Copy the files that are not empty, and return their paths within the folder."""
        found = {path.relative_to(self._folder) for path in paths if path.is_file() and path.stat().st_size}
        for path in found:
            self._copy(path)
        return found

    def remove(self) -> None:
        """Remove the copies: nothing of them is needed any more."""
        shutil.rmtree(self._place, ignore_errors=True)

    def _copy(self, path: Path) -> None:
        status = (self._folder / path).stat()
        found = status.st_size, status.st_mtime_ns
        if self._copied.get(path) == found:
            return
        copy = self._place / path
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        begun = copy.with_name(f".{copy.name}")
        shutil.copyfile(self._folder / path, begun)
        os.replace(begun, copy)
        self._copied[path] = found
