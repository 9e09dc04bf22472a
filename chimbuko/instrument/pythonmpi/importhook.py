"""Load of the recorder's library into a Python program, at the moment when that imports mpi4py.

Symbols of a library that is loaded for all come before those of libraries that are loaded later, as with
``LD_PRELOAD``, which would have to be decided before the program has begun.
"""

from __future__ import annotations

import _ctypes
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import chimbuko
from chimbuko.capture.follow.space import MEMORY
from chimbuko.instrument.hooks.codes import NOT_RECORDED
from chimbuko.instrument.tracer import session
from chimbuko.instrument.tracer.eventrecorder import Recorder

MODULE = "mpi4py.MPI"
FOLDER_VARIABLE = "CHIMBUKO_RECORDER"
COUNT_VARIABLE = "CHIMBUKO_RECORDER_COUNT"
"""Environment variables that the library reads, as in :mod:`chimbuko.instrument.recorder.launch`."""
PREPARATION = "chimbuko.instrument.pythonmpi.preparing"
LONGEST_PREPARATION_S = 300.0
"""Longest wait for the library, which is built in half a minute on a busy node if it is not there yet."""


class MpiImport:
    """Finder that loads the recorder before ``mpi4py.MPI``, and leaves the finding to all others."""

    def install(self) -> None:
        """Notice that import from now on, in this process."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give."""
        if name != MODULE:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                sys.meta_path.remove(self)
                recorder = session.active
                # A forked child is no process of its parent's MPI.
                if recorder is not None and not recorder.is_forked and spec.origin:
                    _record_beside(recorder, spec.origin)
                return spec
        return None


def _record_beside(recorder: Recorder, extension: str) -> None:
    """Load the recorder for the MPI with which an extension of Python is linked, or say why not."""
    folder = MEMORY / f"chimbuko-rings-{os.getpid()}-{time.monotonic_ns()}"
    try:
        library = _prepared(extension)
        folder.mkdir(mode=0o700)
        recorder.family.rings = str(folder)
        _load(library, str(folder))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        recorder.describe_process(NOT_RECORDED, f"MPI calls: {error}")


def _prepared(extension: str) -> str:
    """Return the path of the library, which another process finds: this one shall load nothing for that."""
    paths = (str(Path(chimbuko.__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-P", "-m", PREPARATION, extension, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        timeout=LONGEST_PREPARATION_S,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no recorder could be made").splitlines()[-1])
    return done.stdout.strip()


def _load(library: str, folder: str) -> None:
    # What this process starts must not take them for its own.
    before = {name: os.environ.pop(name, None) for name in (FOLDER_VARIABLE, COUNT_VARIABLE)}
    os.environ[FOLDER_VARIABLE] = folder
    try:
        _ctypes.dlopen(library, os.RTLD_NOW | os.RTLD_GLOBAL)
    finally:
        del os.environ[FOLDER_VARIABLE]
        os.environ.update({name: value for name, value in before.items() if value is not None})
