"""Preparation of kernels: numba and the system's C compiler build the library ahead of time.

Run: python -m chimbuko.core.kernels.build FOLDER

Where there is no C compiler numba compiles all kernels into its own cache, which processes take a second to
load.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from chimbuko.core.kernels import declare
from chimbuko.core.kernels.library import cpu_level, file_name, library_name, suffix, without_library
from chimbuko.core.kernels.signatures import numba_type, signatures

BUILDING = ".building-"
LONGEST_S = 3600.0
"""Time in seconds after which nobody builds any more: it takes half a minute, on a busy node some minutes."""


def main() -> None:
    """Prepare kernels in the folder that is given; with ``--numba`` without a library."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:] == ["--numba"]:
        for name in signatures():
            importlib.import_module(f"chimbuko.{name.rpartition('.')[0]}")
        declare.load_all()
        (folder / without_library()).touch()
        return
    remove_left(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=BUILDING) as place:
        # What compilers leave where they are killed is in there, too, and goes with the next library.
        tempfile.tempdir = os.environ["TMPDIR"] = place
        build(Path(place))
        # Who finds it finds it whole.
        os.replace(Path(place) / file_name(), folder / file_name())
    for path in folder.glob(f"kernels_*{suffix()}"):
        if path.name != file_name():
            path.unlink(missing_ok=True)


def remove_left(folder: Path) -> None:
    """Remove what was left by builds that were killed; where the file system knows no locks, others may be
    building just now.
    """
    for path in folder.glob(f"{BUILDING}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LONGEST_S:
                shutil.rmtree(path, ignore_errors=True)


def build(folder: Path) -> None:
    """Compile all kernels into a library in the folder."""
    with warnings.catch_warnings():
        # It is deprecated without a successor that exists.
        warnings.simplefilter("ignore")
        ahead: Any = importlib.import_module("numba.pycc")

    _mend(ahead.compiler)
    library = ahead.CC(library_name())
    library.output_dir, library.output_file = str(folder), file_name()
    library.target_cpu = cpu_level()
    for name, types in signatures().items():
        module, _, function = name.rpartition(".")
        dispatcher: Any = getattr(importlib.import_module(f"chimbuko.{module}"), function)
        library.export(name.replace(".", "_"), tuple(map(numba_type, types)))(dispatcher.py_func)
    library.compile()


def _mend(compiler: Any) -> None:
    """Make numba compile as it does where it compiles in the process.

    Its own way has one set of flags for all functions, of which one that inlines another takes away the
    separate versions of a variable that all need, and that divides as Python does.
    """
    from numba.core.registry import cpu_target

    original, options = compiler.compile_extra, cast("Any", cpu_target.options)

    def with_flags(*arguments: Any, **keywords: Any) -> Any:
        *others, _ = arguments
        flags = compiler.Flags()
        flags.no_compile = True
        options.parse_as_flags(flags, {"nopython": True, **declare.COMMON})
        return original(*others, flags, **keywords)

    compiler.compile_extra = with_flags


if __name__ == "__main__":
    main()
