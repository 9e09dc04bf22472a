"""Second start of a program that was started with the recorder's library for another MPI, or for none.

A program that a script starts, or that a command such as ``env`` becomes, is known only when it is there. The
library that it was given finds that the program has loaded another MPI, and starts this instead, before the
program has begun.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from chimbuko.core.errors import ChimbukoError
from chimbuko.instrument.recorder.library import INJECTION_VARIABLE, NVTX_VARIABLE, recorder_library
from chimbuko.instrument.recorder.mpi import MpiLibrary
from chimbuko.runtime.preload import PRELOAD_VARIABLE
from chimbuko.runtime.process.lifetime import log

PRELOADED_VARIABLE = "CHIMBUKO_RECORDER_PRELOAD"
"""Environment variable with what the program preloaded."""
TRIED_VARIABLE = "CHIMBUKO_RECORDER_TRIED"
"""Environment variable with the process for which a library was looked for."""


def main() -> NoReturn:
    """Become a program again; the arguments are its MPI, its path, and the words of its command line."""
    mpi, path, *words = sys.argv[1:]
    # Python ignores these, and programs would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, words, _prepared(path, Path(mpi), os.environ))


def _prepared(program: str, mpi: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a program preloads the library for the MPI of this path."""
    environment = dict(given)
    preloaded = environment.pop(PRELOADED_VARIABLE, "")
    try:
        library = str(recorder_library(MpiLibrary(mpi.name, mpi), environment))
        preloaded = with_library(preloaded, library)
        for name in (INJECTION_VARIABLE, NVTX_VARIABLE):
            environment[name] = with_library(environment.get(name, ""), library)
    except (ChimbukoError, OSError, subprocess.SubprocessError) as error:
        log(f"{program} runs, and its calls of MPI are not recorded: {error}")
    return environment | {PRELOAD_VARIABLE: preloaded, TRIED_VARIABLE: str(os.getpid())}


def with_library(preloaded: str, library: str) -> str:
    """Return what is preloaded with the given library in place of the recorder's other one."""
    words = preloaded.replace(":", " ").split()
    return " ".join(library if Path(word).name.startswith("recorder-") else word for word in words)
