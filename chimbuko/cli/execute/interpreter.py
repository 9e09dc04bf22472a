"""Interpreter of Python in a command line, and which program it runs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"python(?:3(?:\.\d+)?t?)?")
_WITH_VALUE: Final = frozenset("WX")
_LONG_WITH_VALUE: Final = "--check-hash-based-pycs"
_ENDING: Final = frozenset("cm")
"""Options behind whose value the arguments of the program begin."""
_UNRECORDED: Final = frozenset("IES")
"""Options under which Python takes nothing from its environment, and so no recorder."""
OURS: Final = "chimbuko"
"""Module of ours, whose verbs record programs by themselves."""


_RECORDING: Final = re.compile(rb"chimbuko\W+trace\b|\btracer\.start\b")
_MOST_READ_BYTES: Final = 1 << 20


def records_itself(script: Path) -> bool:
    """Whether a script begins to record, or starts programs recorded: a second recording would take their
    ranks.
    """
    try:
        with script.open("rb") as file:
            return _RECORDING.search(file.read(_MOST_READ_BYTES)) is not None
    except OSError:
        return False


@dataclass(frozen=True)
class PythonCommand:
    """Command line of an interpreter."""

    script: str = ""
    """Path of the script; empty for a module, a text, or standard input."""
    module: str = ""
    obstacle: str = ""
    """Option that keeps the program from being recorded; empty for none."""

    @property
    def package(self) -> str:
        """Top package of the module; empty where it runs none."""
        return self.module.partition(".")[0]


def is_interpreter(program: str) -> bool:
    """Whether a word names a Python that can be run, and not a file of that name here."""
    is_named = _NAME.fullmatch(os.path.basename(program)) is not None
    is_other = os.sep not in program and os.path.isfile(program)
    return is_named and not is_other and shutil.which(program) is not None


def parse_command(words: Sequence[str]) -> PythonCommand:
    """Return what the arguments of an interpreter make it run."""
    rest = iter(words)
    obstacle = ""
    for word in rest:
        if word == "-" or not word.startswith("-"):
            return PythonCommand(script="" if word == "-" else word, obstacle=obstacle)
        if word == _LONG_WITH_VALUE:
            next(rest, "")
        if word.startswith("--"):
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in _UNRECORDED:
                obstacle = obstacle or f"-{letter}"
            if letter in _ENDING:
                value = word[at:] or next(rest, "")
                return PythonCommand(module=value if letter == "m" else "", obstacle=obstacle)
            if letter in _WITH_VALUE:
                if not word[at:]:
                    next(rest, "")
                break
    return PythonCommand(obstacle=obstacle)
