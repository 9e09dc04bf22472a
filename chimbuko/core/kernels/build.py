"""Preparation of kernels: numba and the system's C compiler build the library ahead of time.

Run: python -m chimbuko.core.kernels.build FOLDER

Where there is no C compiler numba compiles all kernels into its own cache, which processes take a second to
load.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, cast

from chimbuko.core.kernels import declare
from chimbuko.core.kernels.library import cpu_level, file_name, library_name, suffix, without_library
from chimbuko.core.kernels.signatures import numba_type, signatures


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
    with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as place:
        build(Path(place))
        # Who finds it finds it whole.
        os.replace(Path(place) / file_name(), folder / file_name())
    for path in folder.glob(f"kernels_*{suffix()}"):
        if path.name != file_name():
            path.unlink(missing_ok=True)


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
