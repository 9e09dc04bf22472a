"""Settings of a watch, and a check that what is asked for can be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.report.locks import LockCounts, LockFile


class Settings(msgspec.Struct, frozen=True):
    """Settings of a watch."""

    period_s: float = 1.0
    core: int | None = None
    """The sampler's; None if it is to choose."""
    csv: Path | None = None
    """Folder of tables and logs."""
    baseline: Path | None = None
    """Folder of the tables of a good run, with which this one is compared."""
    prometheus: Path | None = None
    """File that holds the newest values."""
    adios: Path | None = None
    """File of an ADIOS2 time series."""
    heartbeat: bool = False
    """A line each period."""
    publish: Callable[[], None] | None = None
    """Called each period by the one monitor that samples the node."""
    locks: LockFile | None = None
    """File where the threads of the program count their locks; None where they do not."""

    def lock_counts(self) -> dict[int, LockCounts] | None:
        """Return the locks of each thread so far; None where they are not counted."""
        return None if self.locks is None else self.locks.counts()

    def check(self) -> None:
        """Make the folder of tables, and see that the others can be written to.

        Raises
        ------
        ConfigError
            One of them cannot be.
        """
        if self.csv is not None:
            try:
                self.csv.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"{self.csv}: not a folder that can be made ({error.strerror})") from error
            check_folder(self.csv)
        for path in (self.prometheus, self.adios):
            if path is not None:
                check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """See that files can be written into a folder.

    Raises
    ------
    ConfigError
        They cannot be.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder}: cannot be written to; name another folder")
