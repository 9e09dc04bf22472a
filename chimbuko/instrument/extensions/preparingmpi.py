"""Search for the library by which a Python extension with MPI is recorded; it is built where it is missing.

It begins in ``main``, in a process of its own beside the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.instrument.recorder.library import REMEDY, WHAT, recorder_library
from chimbuko.instrument.recorder.mpi import MpiLibrary, is_mpi, mpi_of, needed_libraries
from chimbuko.instrument.recorder.ringfolder import make_awaited_folder
from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of


def main() -> None:
    """Print the paths of the library and of a new folder for its rings; the arguments are the extension, and
    the process that loads both.
    """
    extension, pid = Path(sys.argv[1]), int(sys.argv[2])
    try:
        mpi = _mpi_of(extension, pid)
        library = _with_mpi(recorder_library(mpi), mpi)
        print(library, make_awaited_folder(pid), sep="\n")
    except (ChimbukoError, OSError, subprocess.SubprocessError) as error:
        sys.exit(" ".join(str(error).split()))


def _mpi_of(extension: Path, pid: int) -> MpiLibrary:
    """Return the MPI with which an extension is linked: one that is loaded already comes first."""
    names = [name for name in needed_libraries(extension) if is_mpi(name)]
    for path in _mapped(pid):
        # The file's version may be longer than that by which it is known: libmpi.so.40.30.4 is libmpi.so.40.
        for name in names:
            if os.path.basename(path) == name or os.path.basename(path).startswith(f"{name}."):
                return MpiLibrary(name, Path(path))
    if (found := mpi_of(extension)) is None:
        linked = ", ".join(names) or "no MPI that is known"
        raise ConfigError(f"{extension} is linked with {linked}, which is not found; load its module")
    return found


def _mapped(pid: int) -> list[str]:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
        return sorted({line[line.index("/") :] for line in lines if "/" in line})
    return []


def _with_mpi(recorder: Path, mpi: MpiLibrary) -> Path:
    """Return a library that is nothing but the recorder, and MPI behind it.

    Whoever loads it loads both in this order: so the recorder finds MPI's objects, and is found before MPI.
    """

    def build(library: Path) -> None:
        words = [*find_compiler(os.environ, WHAT), "-shared", "-o", str(library), "-Wl,--no-as-needed"]
        words += [str(recorder), str(mpi.path), f"-Wl,-rpath,{mpi.path.parent}"]
        compile_with(words, os.environ, WHAT, REMEDY)

    return kept_library(f"recorder-with-{key_of(str(recorder), mpi.build)}.so", build, os.environ, WHAT)


if __name__ == "__main__":
    main()
