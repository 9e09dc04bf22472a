"""Search for the libraries by which PyTorch is observed; they are built where they are missing.

It begins in ``main``, in a process of its own beside the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.instrument.recorder.library import INCLUDE, recorder_library
from chimbuko.instrument.recorder.ringfolder import make_awaited_folder
from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of

SOURCE = Path(__file__).parent / "library" / "observer.cpp"
WHAT = "the observer of PyTorch"
REMEDY = "set CXX to the compiler that this PyTorch was built with"
FLAGS = ("-O2", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,lazy")
STANDARDS = ("-std=c++20", "-std=c++17")
"""Standards of C++ to be tried: PyTorch's headers want one or the other, by their version."""


def main() -> None:
    """Print the paths of the recorder, of a new folder for its rings, and of the observer.

    The arguments are a description of PyTorch, empty for no observer, and the process that loads these.
    """
    build, pid = json.loads(sys.argv[1]), int(sys.argv[2])
    try:
        native = recorder_library(None)
        observer = [observer_library(build, os.environ)] if build else []
        print(native, make_awaited_folder(pid), *observer, sep="\n")
    except (ChimbukoError, OSError, subprocess.SubprocessError) as error:
        sys.exit(" ".join(str(error).split()))


def observer_library(build: Mapping[str, str], environment: Mapping[str, str]) -> Path:
    """Return the path of the observer for a PyTorch, which is built where it is not there yet, in 5 s.

    Parameters
    ----------
    build
        Folder of PyTorch, its version, and the value of ``_GLIBCXX_USE_CXX11_ABI`` that it was built with.

    Raises
    ------
    ConfigError
        There is no compiler, none that works, or no folder to keep the library in.
    """
    compiler = find_compiler({**environment, "CC": environment.get("CXX", "") or "c++"}, WHAT)
    torch = Path(build["folder"])
    flags = [*FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={build['abi']}", f"-I{torch}/include", f"-I{INCLUDE}"]
    linked = [f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-ltorch_cpu", "-lc10"]
    key = key_of(SOURCE.read_bytes(), *compiler, *flags, *linked, build["version"])

    def compiled(library: Path) -> None:
        words = [*compiler, *flags, str(SOURCE), *linked, "-o", str(library)]
        for standard in STANDARDS:
            try:
                compile_with([*words, standard], environment, WHAT, REMEDY)
                return
            except ConfigError:
                if standard == STANDARDS[-1]:
                    raise

    return kept_library(f"torch-{key}.so", compiled, environment, WHAT)


if __name__ == "__main__":
    main()
