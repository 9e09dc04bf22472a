"""Store of the run that is being written, open while it can be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import StoreBusy, close, open_for_writing, put_aside
from chimbuko.provenance.store.urls import is_sqlite, parsed_url, path_of, public_url
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.runs.directory import RunInfo


class StoreCopies:
    """Copying of an SQLite store while it is written, by its writer: others would begin anew at each write.

    Parameters
    ----------
    path
        Path of the copy, which is a whole store at any time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_failing = False

    def make(self, engine: Engine) -> bool:
        """Make a copy, and return whether there is a new one; that it fails is logged once.

        What is written meanwhile waits at the broker and at agents.
        """
        try:
            self._copy(engine)
        except (OSError, sqlite3.Error) as error:
            if not self._is_failing:
                log(f"{self._path}: the store cannot be copied there ({error}); trying again")
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    def _copy(self, engine: Engine) -> None:
        """Copy by way of this node's own storage: page by page it would take minutes over a network."""
        here = Path(str(engine.url.database)).with_name(f".{self._path.name}-copy")
        there = self._path.with_name(here.name)
        try:
            here.unlink(missing_ok=True)
            with closing(engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM INTO ?", (str(here),))
            shutil.copyfile(here, there)
            os.replace(there, self._path)
        finally:
            for begun in {here, there}:
                with suppress(OSError):
                    begun.unlink(missing_ok=True)


NO_FILE = 0, 0


class Destination(msgspec.Struct, frozen=True):
    """Destination of the records of a run."""

    url: str
    """URL of the store."""
    run_id: str
    info: RunInfo | None = None
    """Description of the run, where the store is its own: a damaged one is put aside, and a new one begun
    with this."""
    severe_us: float | None = None
    """Severity from which a call is reported as it is stored; None for no calls."""
    copy: Path | None = None
    """Place of a copy of the store on storage that other nodes share, made now and then."""
    is_urgent: Callable[[], bool] = lambda: False
    """Function that says whether this node may soon be gone, so that a copy is made at once."""
    writer: int = 0
    """Number of this one of several writers, counted from 1; 0 for the only one, and for the keeper."""
    writers: int = 1
    """Number of writers."""

    @property
    def is_keeper(self) -> bool:
        """Whether others write records, and this process explains them, and writes what is of no rank."""
        return self.writers > 1 and not self.writer


class RunStore:
    """Store of a run with its writer, opened when it is needed first, and again where it was let go of.

    Methods raise ``StoreError`` where the store cannot be used.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._open: tuple[Engine, Writer] | None = None
        self._file = NO_FILE
        """Device and inode of the open store's file."""

    def open(self) -> tuple[Engine, Writer]:
        """Open the store, where it is not open yet, and return it with its writer."""
        if self._open is None:
            # A damaged file is put aside only while it is still that which could not be opened.
            self._file = self._file_there()
            engine = open_for_writing(self._destination.url)
            writer = Writer(engine, self._destination.run_id, self._destination.writer)
            self._open, self._file = (engine, writer), self._file_there()
            if self._destination.info is not None:
                writer.write_run(self._destination.info)
        return self._open

    @property
    def engine(self) -> Engine:
        """Engine of the open store."""
        return self.open()[0]

    @property
    def writer(self) -> Writer:
        """Writer of the open store."""
        return self.open()[1]

    def provenance(self) -> Provenance:
        """Return what is stored of the run."""
        return Provenance(self.engine, self._destination.run_id)

    def check(self) -> None:
        """Check that what was written is in the store of this run.

        Raises
        ------
        StoreBusy
            Another writer has put a damaged file aside, and this one wrote into that.
        """
        if self._destination.writers > 1 and self._file_there() != self._file:
            self.let_go(False)
            raise StoreBusy(
                f"{public_url(self._destination.url)}: was put aside by another writer; trying again"
            )

    def let_go(self, puts_aside: bool) -> str:
        """Let go of a damaged store, also as a user may put a whole file in its place.

        Parameters
        ----------
        puts_aside
            Whether its file is put aside, where that is possible; the path to which is returned.
        """
        if self._open is not None:
            self._open[0].dispose()
            self._open = None
        if not puts_aside or self._file_there() != self._file:
            return ""
        try:
            return str(put_aside(self._destination.url))
        except OSError:
            return ""

    def close(self) -> None:
        """Close the store; all is in it."""
        close(self.engine)

    def _file_there(self) -> tuple[int, int]:
        """Return device and inode of the store's file, where there is one."""
        url = parsed_url(self._destination.url)
        if not is_sqlite(url):
            return NO_FILE
        try:
            found = path_of(url).stat()
        except OSError:
            return NO_FILE
        return found.st_dev, found.st_ino
