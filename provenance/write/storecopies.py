"""Copies of a store from a node's own storage to storage that other nodes share."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

from chimbuko.runtime.process.lifetime import log

PERIOD_S = 30.0
SHARE = 0.01
"""Share of the time that copying may take."""
MOST_SHARE = 0.1
"""Share of the time that copying may take where somebody waits for a copy."""


class StoreCopies:
    """Copying of an SQLite store while it is written, by its writer: others would begin anew at each write.

    Parameters
    ----------
    path
        Path of the copy, which is a whole store at any time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_s = time.monotonic() + PERIOD_S
        self._soonest_s = 0.0
        self._is_failing = False

    def keep_up(self, engine: Engine, is_wanted: bool = False) -> bool:
        """Make a copy where one is due, and return whether there is a new one.

        What is written meanwhile waits at the broker and at agents.

        Parameters
        ----------
        is_wanted
            Whether somebody waits for a copy, which is then due sooner.
        """
        began_s = time.monotonic()
        if began_s < (self._soonest_s if is_wanted else self._due_s):
            return False
        is_made = False
        try:
            self._copy(engine)
            is_made, self._is_failing = True, False
        except (OSError, sqlite3.Error) as error:
            if not self._is_failing:
                log(f"{self._path}: the store cannot be copied there ({error}); trying again")
            self._is_failing = True
        ended_s = time.monotonic()
        took_s = ended_s - began_s
        self._soonest_s = ended_s + took_s / MOST_SHARE
        self._due_s = ended_s + max(PERIOD_S, took_s / SHARE)
        return is_made

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
