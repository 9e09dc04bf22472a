"""The switch under which words that trace a program run it plainly. Loads next to nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from chimbuko.runtime.process.usercommand import CommandError

PLAINLY = {"CHIMBUKO_PLAINLY": "1", "CHIMBUKO_TRACE": "0"}
"""Variables that switch recording off: ``chimbuko trace`` only runs its program; none traces itself."""
TAU_EXEC = "tau_exec"
_PLAINLY = """#!/bin/sh
# In place of tau_exec: the program without TAU.
while [ $# -gt 0 ]; do
    case "$1" in
        -T | -ebs_period | -ebs_source) shift; [ $# -gt 0 ] && shift ;;
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
    esac
done
exec "$@"
"""


def is_plain(environment: Mapping[str, str]) -> bool:
    """Whether ``chimbuko trace`` shall run its program plainly."""
    return environment.get("CHIMBUKO_PLAINLY", "0") not in ("", "0")


def become_plainly(path: Path, words: Sequence[str]) -> NoReturn:
    """Become a program that nobody traces; raises CommandError where it cannot be run."""
    try:
        os.execv(path, list(words))
    except OSError as error:
        raise CommandError(words[0], error.errno or 0) from error


def without_tau(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return a command and its environment in which ``tau_exec``, also within scripts, runs its program
    plainly.

    Parameters
    ----------
    folder
        A new folder on this machine, for what stands in place of it.
    """
    folder.mkdir()
    plainly = folder / TAU_EXEC
    plainly.write_text(_PLAINLY)
    plainly.chmod(0o755)
    words = [str(plainly) if Path(word).name == TAU_EXEC else word for word in command]
    return words, {"PATH": os.pathsep.join(filter(None, (str(folder), environment.get("PATH", ""))))}
