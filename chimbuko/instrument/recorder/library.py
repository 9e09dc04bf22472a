"""Build of the recorder's C library, at first use, for the MPI that a program's file shows, or for none.

It is kept for this user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from chimbuko.instrument.recorder import mpitable, wrappers
from chimbuko.instrument.recorder.mpi import MpiLibrary, find_mpi_compiler
from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of

ELF_MAGIC = b"\x7fELF"
PYTHON_SUFFIXES = (".py", ".pyw", ".pyz")


@dataclass(frozen=True)
class NativeProgram:
    """Program that is not a Python script."""

    path: Path
    obstacle: str
    """Why no library can be preloaded into the program, and what to do about it; empty if it can."""
    is_elf: bool
    """Whether the program is a binary, and not a script that starts others."""


def native_program(path: Path) -> NativeProgram | None:
    """Return the program of a file; None for one that Python runs."""
    try:
        with open(path, "rb") as file:
            first_line = file.readline(256)
    except OSError:
        return None
    if first_line.startswith(ELF_MAGIC):
        return NativeProgram(path, _obstacle(path), is_elf=True)
    is_script = first_line.startswith(b"#!") and os.access(path, os.X_OK)
    if is_script and b"python" not in first_line and path.suffix not in PYTHON_SUFFIXES:
        return NativeProgram(path, "", is_elf=False)
    return None


def _obstacle(path: Path) -> str:
    mode = path.stat().st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "it is set-user-ID or set-group-ID, and the system preloads nothing into such a program"
    with suppress(ELFError, OSError), open(path, "rb") as file:
        segments = {segment["p_type"] for segment in ELFFile(file).iter_segments()}
        if "PT_INTERP" not in segments:
            return "it is linked statically; link it dynamically"
    return ""


FOLDER = Path(__file__).with_name("library")
INCLUDE = Path(__file__).with_name("include")
"""Folder of the headers for programs that name their own regions."""
COMMON = (
    *("recorder.c", "functions.c", "crash.c", "stacks.c", "programs.c", "openmp.c", "gomp.c"),
    *("work.c", "worknotes.c", "looks.c", "budget.c", "node.c", "callsites.c", "callers.c", "machinecode.c"),
    *("binaries.c", "sleds.c", "entries.c", "gpu.c", "cuda.c", "nvtx.c"),
)
WITH_MPI = ("messages.c", "communicators.c", "requests.c", "fortran.c")
WITHOUT_MPI = ("nompi.c",)
WHAT = "the recorder"
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-fPIC"),
    *("-fvisibility=hidden", "-fno-omit-frame-pointer"),
)
MADE_FLAGS = (*FLAGS, "-O1")
"""Flags for generated sources: a thousand similar functions, which compile in half the time with ``-O1``."""
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
"""Environment variables with the libraries that CUDA, and NVTX, load when they begin in a process."""
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
    texts += [Path(module.__file__ or "").read_bytes() for module in (wrappers, wrappers, mpitable)]
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
            ("fortranwrappers.c", wrappers.fortran_source(header)),
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
