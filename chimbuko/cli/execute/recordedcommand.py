"""Command of a user, changed so that the programs which it runs are recorded."""

from __future__ import annotations

import mmap
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chimbuko.cli.execute.interpreter import (
    OURS,
    first_line_words,
    is_interpreter,
    is_recording,
    parse_command,
    recorded_launch,
    records_itself,
)
from chimbuko.cli.execute.mpilaunch import recorded_job

_RECORD: Final = (sys.executable, "-m", OURS, "trace")
_OF_TAU: Final = (b"tau_exec", b"tau_python", b"libTAU", b"TAU_PLUGINS")
"""What a program or a command that TAU records has in its text."""


def recorded_command(words: Sequence[str]) -> Sequence[str]:
    """Return a command that records what a launcher starts, a script of Python, what an interpreter runs, or
    a binary of the user's own; others stay as they are.
    """
    if not words:
        return words
    if (launch := recorded_launch(words)) is not None:
        return launch
    text = os.fsencode(" ".join(words))
    is_recorded = is_recording(text) or any(name in text for name in _OF_TAU)
    if not is_recorded and (job := recorded_job(words, _recorded_by_launcher)) is not None:
        return job
    is_own = os.sep in words[0] and os.path.dirname(words[0]) not in os.get_exec_path()
    return _recorded_python(words) or (_recorded_native(words, with_scripts=False) if is_own else words)


def _recorded_by_launcher(words: Sequence[str]) -> Sequence[str]:
    return _recorded_python(words) or _recorded_native(words, with_scripts=True)


def _recorded_python(words: Sequence[str]) -> Sequence[str]:
    """Return the words by which a program of Python is run; none for any other program."""
    given = words if is_interpreter(words[0]) else _by_python(words)
    if not given:
        return ()
    command = parse_command(given[1:])
    # What a text or the standard input holds is a few lines that start something, as a rule.
    is_program = bool(command.script or command.module) and command.package != OURS
    if not is_program or records_itself(Path(command.script)):
        return given
    # A script that no other Python is named for is recorded by ours in itself.
    is_ours = tuple(given) == (sys.executable, *words)
    return (*_RECORD, *(words if is_ours else given))


def _recorded_native(words: Sequence[str], with_scripts: bool) -> Sequence[str]:
    # Here because a program of Python needs none of it.
    from chimbuko.instrument.recorder.library import native_program

    found = words[0] if Path(words[0]).is_file() else shutil.which(words[0])
    program = None if found is None else native_program(Path(found).absolute())
    is_program = program is not None and (program.is_elf or with_scripts)
    if program is None or not is_program or records_itself(program.path) or _is_of_tau(program.path):
        return words
    return (*_RECORD, *words)


def _is_of_tau(program: Path) -> bool:
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return any(text.find(name) >= 0 for name in _OF_TAU)
    except (OSError, ValueError):
        return False


def _by_python(words: Sequence[str]) -> Sequence[str]:
    """Return the command of the interpreter that runs a script of Python, if one was given by itself: the one
    that its first line names where it may be executed, or else ours; nothing for any other command.
    """
    script = Path(words[0])
    is_named = script.suffix == ".py" or os.sep in words[0]
    if not is_named or not os.access(script, os.R_OK) or not script.is_file():
        return ()
    by = first_line_words(script) if os.access(script, os.X_OK) else []
    if by:
        return (*by, *words) if is_interpreter(by[0]) else ()
    return (sys.executable, *words) if script.suffix == ".py" else ()
