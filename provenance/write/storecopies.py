"""Copies of a store on a node's own storage, onto storage that other nodes share."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Engine

from chimbuko.process.lifetime import log

PERIOD_S = 30.0
SHARE = 0.01
"""Part of the time that copying may take."""


class StoreCopies:
    """Copies a store in SQLite while it is written, by its writer: others would begin anew at each write.

    Parameters
    ----------
    path
        Of the copy, which is a whole store at any time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_s = time.monotonic() + PERIOD_S
        self._is_failing = self._is_hastening = False

    def keep_up(self, engine: Engine, is_urgent: bool = False) -> None:
        """Make a copy where one is due. What is written meanwhile waits at the broker and at agents.

        Parameters
        ----------
        is_urgent
            Whether the node may soon be gone: then one is due at once.
        """
        began_s = time.monotonic()
        if is_urgent and not self._is_hastening:
            self._is_hastening, self._due_s = True, began_s
        if began_s < self._due_s:
            return
        begun = self._path.with_name(f".{self._path.name}-copy")
        try:
            begun.unlink(missing_ok=True)
            with closing(engine.raw_connection()) as connection:
                connection.cursor().execute("VACUUM INTO ?", (str(begun),))
            os.replace(begun, self._path)
            self._is_failing = False
        except (OSError, sqlite3.Error) as error:
            with suppress(OSError):
                begun.unlink(missing_ok=True)
            if not self._is_failing:
                log(f"{self._path}: the store cannot be copied there ({error}); trying again")
            self._is_failing = True
        took_s = time.monotonic() - began_s
        self._due_s = time.monotonic() + max(PERIOD_S, took_s / SHARE)
