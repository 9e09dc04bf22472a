"""Load of the recorder's library into a Python program, at the moment when that imports mpi4py.

Symbols of a library that is loaded for all come before those of libraries that are loaded later, as with
``LD_PRELOAD``, which would have to be decided before the program has begun.
"""

from __future__ import annotations

import _ctypes
import os
import subprocess
from pathlib import Path

import chimbuko
from chimbuko.instrument.hooks.codes import NOT_RECORDED
from chimbuko.instrument.tracer.eventrecorder import Recorder

FOLDER_VARIABLE = "CHIMBUKO_RECORDER"
COUNT_VARIABLE = "CHIMBUKO_RECORDER_COUNT"
"""Environment variables that the library reads, as in :mod:`chimbuko.instrument.recorder.launch`."""
INJECTION_VARIABLE, NVTX_VARIABLE = "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"
"""Environment variables of CUDA and NVTX, as in :mod:`chimbuko.instrument.recorder.library`."""
PREPARATION = "chimbuko.instrument.extensions.preparingmpi"
LONGEST_PREPARATION_S = 300.0
"""Longest wait for the library, which is built in half a minute on a busy node if it is not there yet."""


def record_beside(recorder: Recorder, extension: str) -> None:
    """Load the recorder for the MPI with which an extension of Python is linked, or say why not."""
    try:
        library, folder = prepared(recorder.family.interpreter, PREPARATION, extension)
        recorder.rings = folder
        load(library, folder)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        recorder.describe_process(NOT_RECORDED, f"MPI calls: {error}")


def record_gpus(recorder: Recorder, library: str) -> None:
    """Have CUDA load the recorder when it begins here, unless another profiler is to come first."""
    import atexit
    import ctypes

    os.environ.setdefault(NVTX_VARIABLE, library)
    if os.environ.setdefault(INJECTION_VARIABLE, library) == library:
        # Before the recording ends, which has been registered earlier.
        atexit.register(ctypes.CDLL(library).chimbuko_hand_over_gpus)
    else:
        other = os.environ[INJECTION_VARIABLE]
        recorder.describe_process(NOT_RECORDED, f"what runs on GPUs: {other} is there to profile it")


def prepared(interpreter: str, preparation: str, built_for: str) -> list[str]:
    """Return the paths of what is to be loaded, and of a folder for its rings. Another process sees to them:
    this one shall load nothing for that, and may be of a Python that has nothing of what is needed.

    Parameters
    ----------
    preparation
        Module that prints the paths.
    built_for
        Path of what the library is for.
    """
    paths = (str(Path(chimbuko.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [interpreter, "-P", "-m", preparation, built_for, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        timeout=LONGEST_PREPARATION_S,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no recorder could be made").splitlines()[-1])
    return done.stdout.splitlines()


def load(library: str, folder: str) -> None:
    """Load a library that writes into rings in a folder."""
    # What this process starts must not take them for its own.
    before = {name: os.environ.pop(name, None) for name in (FOLDER_VARIABLE, COUNT_VARIABLE)}
    os.environ[FOLDER_VARIABLE] = folder
    try:
        _ctypes.dlopen(library, os.RTLD_NOW | os.RTLD_GLOBAL)
    finally:
        del os.environ[FOLDER_VARIABLE]
        os.environ.update({name: value for name, value in before.items() if value is not None})
