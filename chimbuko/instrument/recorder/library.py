"""Build of the recorder's C library, at first use, for one MPI or for none; it is kept for this user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chimbuko.instrument.recorder import fortran, mpitable, wrappers
from chimbuko.instrument.recorder.mpi import MpiLibrary, find_mpi_compiler
from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of

FOLDER = Path(__file__).with_name("library")
INCLUDE = Path(__file__).with_name("include")
"""Folder of the headers for programs that name their own regions."""
COMMON = ("recorder.c", "functions.c", "crash.c", "openmp.c")
WITH_MPI = ("messages.c", "communicators.c", "requests.c", "fortran.c")
WITHOUT_MPI = ("nompi.c",)
WHAT = "the recorder"
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-fPIC"),
    *("-fvisibility=hidden", "-fno-omit-frame-pointer"),
)
MADE_FLAGS = (*FLAGS, "-O1")
"""Flags for generated sources: a thousand similar functions, which compile in half the time with ``-O1``."""
REMEDY = "run 'chimbuko doctor', or record with TAU"


def recorder_library(mpi: MpiLibrary | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the library, which is built where it is not there yet; that takes some seconds.

    The library is not linked with MPI: processes that preload it without using MPI do not load one.

    Parameters
    ----------
    mpi
        MPI of the program; None for a program without.
    environment
        Environment in which compilers and folders are looked up.

    Raises
    ------
    ConfigError
        No compiler, none that works or none for this MPI, or no folder to keep the library in.
    """
    texts = [path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in (".c", ".h")]
    texts += [Path(module.__file__ or "").read_bytes() for module in (wrappers, fortran, mpitable)]
    key = key_of(*texts, *FLAGS, *MADE_FLAGS, environment.get("CC", ""), "" if mpi is None else mpi.build)

    def build(library: Path) -> None:
        _build(mpi, library, environment)

    return kept_library(f"recorder-{key}.so", build, environment, WHAT)


def _build(mpi: MpiLibrary | None, library: Path, environment: Mapping[str, str]) -> None:
    linker = find_compiler(environment, WHAT)
    sources: dict[Path, tuple[str, ...]] = {
        FOLDER / name: FLAGS for name in (*COMMON, *(WITHOUT_MPI if mpi is None else WITH_MPI))
    }
    if mpi is None:
        compiler, more = linker, []
    else:
        compiler, more = [find_mpi_compiler(mpi, environment)], [f'-DMPI_SONAME="{mpi.soname}"']
        trial = library.with_name("mpi.c")
        trial.write_text("#include <mpi.h>\n")
        header = compile_with([*compiler, "-E", str(trial)], environment, WHAT, REMEDY)
        library.with_name("objects.h").write_text(wrappers.objects_header(header))
        for name, text in (
            ("wrappers.c", wrappers.wrappers_source(header)),
            ("fortranwrappers.c", fortran.fortran_source(header)),
        ):
            made = library.with_name(name)
            made.write_text(text)
            # The sources that take longest to compile come first.
            sources = {made: MADE_FLAGS, **sources}

    def compiled(source: Path) -> str:
        result = str(library.with_name(f"{source.stem}.o"))
        words = [*compiler, *sources[source], *more, f"-I{FOLDER}", f"-I{library.parent}"]
        compile_with([*words, "-c", str(source), "-o", result], environment, WHAT, REMEDY)
        return result

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, sources))
    words = [*linker, "-shared", "-Wl,-z,lazy", "-o", str(library), *objects, "-ldl", "-lpthread"]
    compile_with(words, environment, WHAT, REMEDY)
