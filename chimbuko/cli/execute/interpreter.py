"""Interpreter of Python in a command line, PyTorch's launcher among them, and which program it runs."""

from __future__ import annotations

import os
import re
import shutil
import sys
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
            return is_recording(file.read(_MOST_READ_BYTES))
    except OSError:
        return False


def is_recording(text: bytes) -> bool:
    """Whether a text begins to record, or starts programs recorded."""
    return _RECORDING.search(text) is not None


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


_LAUNCHER: Final = "torchrun"
_MODULES: Final = frozenset(("torch.distributed.run", "torch.distributed.launch"))
_WITHOUT_PYTHON: Final = "--no-python"
_FLAGS: Final = frozenset(("--standalone", "--run-path", "--virtual-local-rank", "--use-env"))
"""Options without a value, besides those that say what is run."""


def recorded_launch(words: Sequence[str]) -> list[str] | None:
    """Return a command of ``torchrun`` that records the script which it launches; None for any other command,
    and where the script records itself.
    """
    found = _launcher_of(words)
    if found is None:
        return None
    launcher, interpreter = found
    options, program, is_module = _split(words[len(launcher) :])
    without = [*launcher, _WITHOUT_PYTHON, *options]
    if not program:
        return None
    if program[0] == OURS or Path(program[0]).name == OURS:
        # "torchrun chimbuko trace train.py" would have Python run a script of that name.
        return [*without, *program]
    if not is_module and records_itself(Path(program[0])):
        return None
    run = ["-m", *program] if is_module else program
    return [*without, sys.executable, "-m", OURS, "trace", interpreter, "-u", *run]


def _launcher_of(words: Sequence[str]) -> tuple[Sequence[str], str] | None:
    """Return the words that name the launcher, and the Python that it runs scripts with."""
    if Path(words[0]).name == _LAUNCHER and (path := shutil.which(words[0])) is not None:
        return words[:1], _interpreter_of(Path(path))
    if len(words) > 2 and is_interpreter(words[0]) and words[1] == "-m" and words[2] in _MODULES:
        return words[:3], words[0]
    return None


def first_line_words(script: Path) -> list[str]:
    """Return the words by which the system runs a script, from its first line; none for any other file."""
    with script.open("rb") as file:
        first = file.readline(1024).decode(errors="replace").strip()
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        return [word for word in words[1:] if word != "-S"]
    return words


def _interpreter_of(script: Path) -> str:
    named = next(iter(first_line_words(script)), "")
    return named if named and is_interpreter(named) else sys.executable


def _split(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Return the launcher's options without those that say what is run, what is run, and whether that is a
    module. Nothing is run where the launcher does not do it by Python.
    """
    options: list[str] = []
    is_module, at = False, 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at].replace("_", "-") if words[at].startswith("--") else words[at]
        at += 1
        if word == _WITHOUT_PYTHON:
            return [], [], False
        if word in ("-m", "--module"):
            is_module = True
            continue
        options.append(words[at - 1])
        if word not in _FLAGS and "=" not in word and at < len(words):
            options.append(words[at])
            at += 1
    return options, list(words[at:]), is_module
