"""Functions that TAU knows by address only, until their names are found."""

from __future__ import annotations

import math
import time
from pathlib import Path

from chimbuko.capture.symbols.resolver import Resolver, Steps
from chimbuko.core.traceschema import UNNAMED_FUNCTIONS, UNRESOLVED, StreamNames
from chimbuko.runtime.process.lifetime import log

PAUSE_S = 0.01
AFTER_END_S = 7.0
"""Time in seconds for which a step of a live stream waits for its names after its program has ended. Soon
afterwards, an agent gives up streams that bring nothing."""
TOO_LATE = "its end came before they were looked up, as the node was busy; leave a core free for the analysis"

_logged: set[tuple[str, str]] = set()
"""Binaries and what is wrong with them, of which this process has logged: a trace's streams share them."""


class UnnamedFunctions:
    """The functions of one stream that have come without a name.

    Parameters
    ----------
    path
        Path of the stream, for messages.
    rank
        Rank of the process, as in its metadata. If no name is found, it distinguishes functions.
    names
        Names of the stream, to which names that are found are added, and why others are missing.
    """

    def __init__(self, path: Path, rank: int, names: StreamNames) -> None:
        self._path = path
        self._rank = rank
        self._names = names
        self._resolver = Resolver(rank)
        self._waiting: dict[tuple[str, int], str] = {}
        """Unnamed functions that wait for their names, by kind and number."""
        self._look_up: Steps | None = None
        self._ended_s: float | None = None
        """Time at which the program was first seen to have ended, while names are looked up."""

    def put(self, kind: str, number: int, name: str) -> None:
        """Take a name that holds an address."""
        if number not in self._names.of_kind(kind):
            self._waiting[kind, number] = name

    def find(self, patience_s: float = math.inf, after_end_s: float = AFTER_END_S) -> bool:
        """Find the names; false if that takes longer than ``patience_s`` seconds, to be called again."""
        self._resolver.note_process(self._names.metadata)
        deadline_s = time.monotonic() + patience_s
        while self._waiting:
            if self._look_up is None:
                self._look_up = self._resolver.look_up(list(self._waiting.values()))
                self._ended_s = None
            if self._goes_on(self._look_up):
                if not self._is_too_late(after_end_s):
                    if time.monotonic() >= deadline_s:
                        return False
                    time.sleep(PAUSE_S)
                    continue
                self._look_up.close()
                self._resolver.give_up(self._waiting.values(), TOO_LATE)
            self._look_up = None
            self._keep()
            self._report_problems()
        return True

    def _is_too_late(self, after_end_s: float) -> bool:
        if self._ended_s is None and self._resolver.has_ended():
            self._ended_s = time.monotonic()
        return self._ended_s is not None and time.monotonic() > self._ended_s + after_end_s

    def _goes_on(self, look_up: Steps) -> bool:
        try:
            next(look_up)
            return True
        except StopIteration:
            pass
        # Whatever is wrong with a binary, the stream is read.
        except Exception as error:
            log(f"{self._path}: functions cannot be looked up ({type(error).__name__}: {error})")
        return False

    def _keep(self) -> None:
        for (kind, number), name in self._waiting.items():
            found = self._resolver.named(name)
            is_address = UNRESOLVED in found
            self._names.of_kind(kind)[number] = f"{found} (rank {self._rank})" if is_address else found
        self._waiting.clear()

    def _report_problems(self) -> None:
        """Say why functions of a binary have no names: once here, and to who looks at the run."""
        for path, problem in self._resolver.problems.items():
            key = self._rank, 0, UNNAMED_FUNCTIONS + path
            if key not in self._names.metadata:
                self._names.metadata[key] = problem
                if (path, problem) not in _logged:
                    _logged.add((path, problem))
                    log(f"{self._path}: functions of {path} have no name: {problem}")
