"""Keeps a file with what charts show of what was published, for the dashboard."""

from __future__ import annotations

import time
from pathlib import Path

from chimbuko.core.atomicfile import write_atomically
from chimbuko.observe.namespaces.analyses.gathering import Gathered
from chimbuko.observe.namespaces.analyses.views import encode
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.runtime.process.lifetime import log

PERIOD_S = 1.0
REST = 20.0
"""After writing it rests this many times as long as that took: large files are written less often."""


class ViewsFile:
    """Gathers observations, and writes what charts show of them now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gathered = Gathered()
        self._is_new = False
        self._due_s = 0.0
        self._has_failed = False

    def take(self, observation: Observation) -> None:
        """One observation more."""
        self._gathered.take(observation)
        self._is_new = True

    def keep_up(self, is_last: bool = False) -> None:
        """Write the file, where there is something new and that is due, or if it is for the last time."""
        began_s = time.monotonic()
        if not self._is_new or (began_s < self._due_s and not is_last):
            return
        try:
            write_atomically(self._path, encode(self._gathered.views), 0o600)
            self._is_new = False
        except OSError as error:
            # The watch goes on without it, and tries again.
            if not self._has_failed:
                log(f"{self._path}: cannot be written ({error.strerror}); the dashboard lacks what is new")
            self._has_failed = True
        self._due_s = began_s + PERIOD_S + REST * (time.monotonic() - began_s)
