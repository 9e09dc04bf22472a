"""Copies of a store from a node's own storage to storage that other nodes share."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

from chimbuko.runtime.process.lifetime import log


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
