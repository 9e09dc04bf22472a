"""Notice that nothing records the program of a run: said while it goes on, and not only at its end."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chimbuko.capture.trace.discovery import find_live
from chimbuko.launcher.outcome.losses import HOW_TO_RECORD

SAID_AFTER_S: Final = 4.0
"""Time that a program has until its first stream; ours appear within 0.5 s, where a core is free."""
_RECORDING: Final = frozenset(("tau_exec", "tau_python"))
_OURS: Final = "chimbuko"


class UnrecordedProgram:
    """Search for the first stream of a program.

    Parameters
    ----------
    command
        Words of the program; those that have it recorded get the time that they need.
    folder
        Folder in which its streams appear.
    began_s
        Time at which the program began, on the monotonic clock.
    """

    def __init__(self, command: Sequence[str], folder: Path, began_s: float) -> None:
        self._folder = folder
        self._due_s = began_s + SAID_AFTER_S
        self._is_over = _is_recorded(command)

    def news(self, now_s: float) -> str:
        """Return what is to be said of the program now; empty for nothing. It is said once."""
        if self._is_over or now_s < self._due_s:
            return ""
        self._is_over = True
        try:
            return "" if find_live(self._folder) else f"nothing records the program so far. {HOW_TO_RECORD}"
        except FileNotFoundError:
            # Who keeps the folder removes it when the program has ended.
            return ""


def _is_recorded(command: Sequence[str]) -> bool:
    names = [os.path.basename(word) for word in command]
    ours = itertools.pairwise(names)
    return not _RECORDING.isdisjoint(names) or any(pair == (_OURS, "trace") for pair in ours)
