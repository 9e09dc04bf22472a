"""Start of a recorded program: this process becomes the program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import chimbuko
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError
from chimbuko.instrument.annotations.options import (
    INSTANCE_PATH_VARIABLE,
    VARIABLE,
    instance_path,
    parse_options,
)
from chimbuko.instrument.recorder.library import (
    INJECTION_VARIABLE,
    NVTX_VARIABLE,
    NativeProgram,
    recorder_library,
)
from chimbuko.instrument.recorder.mpi import mpi_of
from chimbuko.instrument.recorder.ringfolder import (
    READY,
    error_output,
    make_ring_folder,
    open_error_file,
    remove_ring_folder,
)
from chimbuko.runtime.preload import PRELOAD_VARIABLE
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.usercommand import CommandError
from chimbuko.runtime.runs.programname import program_of

FOLDER_VARIABLE = "CHIMBUKO_RECORDER"
FIRST_VARIABLE = "CHIMBUKO_RECORDER_PID"
INTERPRETER_VARIABLE = "CHIMBUKO_RECORDER_PYTHON"
HOME_VARIABLE = "CHIMBUKO_RECORDER_HOME"
"""Environment variables with which a program that needs another library is started again (``again``)."""
USAGE_VARIABLE = "CHIMBUKO_RECORDER_USAGE"
COUNT_VARIABLE = "CHIMBUKO_RECORDER_COUNT"
"""Environment variable under which messages are counted, and nothing is recorded."""
READY_TIMEOUT_S = 30.0
"""Longest wait for the drain to be ready, which takes 0.4 s on a machine with nothing else to do."""


def become(program: NativeProgram, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become the program, recorded if that is possible; if not, one line on stderr says why.

    Parameters
    ----------
    words
        Arguments of the program, beginning with its name.

    Raises
    ------
    CommandError
        The program cannot be run.
    """
    own = dict(environment)
    try:
        if program.obstacle:
            raise ConfigError(program.obstacle)
        own |= _recorded(program, words, environment)
        # A monitor may have the messages of its programs counted; the trace has them anyway.
        own.pop(COUNT_VARIABLE, None)
    except (ChimbukoError, OSError, subprocess.SubprocessError) as error:
        log(f"{program.path} runs, and is not recorded: {error}")
    try:
        os.execve(program.path, list(words), own)
    except OSError as error:
        raise CommandError(str(program.path), error.errno or 0) from error


def _recorded(program: NativeProgram, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Start the drain; return the variables that the program needs in its environment."""
    settings = WriterSettings.from_environment(environment)
    library = recorder_library(mpi_of(program.path, environment), environment)
    folder = make_ring_folder(settings.prefix.absolute().parent, is_marked=settings.has_instances)
    try:
        _start_drain(folder, environment)
    except BaseException:
        remove_ring_folder(folder)
        raise
    again = {INTERPRETER_VARIABLE: sys.executable, HOME_VARIABLE: str(Path(chimbuko.__file__).parent.parent)}
    preloaded = " ".join(filter(None, [str(library), environment.get(PRELOAD_VARIABLE, "")]))
    # What ``env`` becomes is the program, and has the rank.
    is_program = program.is_elf and program_of(words) == os.path.basename(words[0])
    first = {FIRST_VARIABLE: str(os.getpid())} if is_program else {}
    return {
        PRELOAD_VARIABLE: preloaded,
        FOLDER_VARIABLE: str(folder),
        # Another profiler there comes first.
        **{name: environment.get(name) or str(library) for name in (INJECTION_VARIABLE, NVTX_VARIABLE)},
        **first,
        **again,
        **_annotations(environment),
    }


def _annotations(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a program whose annotated functions are written into a file of their own."""
    if VARIABLE not in environment:
        return {}
    try:
        options = parse_options(environment[VARIABLE])
    except ConfigError as error:
        log(f"{error}; annotations are not written")
        return {}
    usage = {USAGE_VARIABLE: "1"} if options.has_usage else {}
    return {INSTANCE_PATH_VARIABLE: instance_path(environment), **usage}


def _start_drain(folder: Path, environment: Mapping[str, str]) -> None:
    package_home = str(Path(chimbuko.__file__).parent.parent)
    paths = os.pathsep.join(filter(None, (package_home, environment.get("PYTHONPATH", ""))))
    # The drain must not be a child of this process: the program may wait for any child of its own.
    starter = (
        "import os; os.fork() and os._exit(0); "
        "from chimbuko.runtime.process.signals import be_called; be_called('chimbuko.drain'); "
        "from chimbuko.instrument.recorder.drain import main; main()"
    )
    # The drain outlives the program, so it must not keep pipes open that others read to their end. The
    # program waits until the drain is ready, since a ring may be full in a moment.
    said = open_error_file(folder)
    try:
        started = subprocess.run(
            [sys.executable, "-P", "-c", starter, str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**environment, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
            timeout=READY_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(
            f"the process that writes its trace was not ready within {READY_TIMEOUT_S:g} s; "
            "is the machine overloaded?"
        ) from error
    finally:
        os.close(said)
    if started.stdout != READY:
        *_, why = ["it ended without a message", *error_output(folder).splitlines()]
        raise ServiceError(f"the process that writes its trace could not start: {why}")
