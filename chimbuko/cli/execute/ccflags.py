"""``chimbuko cc-flags``: how a program is compiled so that its functions are recorded."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from chimbuko.instrument.recorder.library import INCLUDE

_CLANG = ("-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps")
_GCC = (
    "-fpatchable-function-entry=7,5",
    # Callers may not know which registers a function leaves alone, as it calls the recorder.
    "-fno-ipa-ra",
    # Functions are seen that the source does not declare inline. Of CoMD and LULESH that cost 0 to 2 %.
    *("-fno-inline-functions-called-once", "-fno-inline-small-functions", "-fno-inline-functions"),
)
_OWN_ASSEMBLER = f"-B{INCLUDE / 'assembler'}/"
_CXX_FILE = """
template <class T> __attribute__((noinline)) T shared(T value) { return value + 1; }
__attribute__((noinline)) int first_NAME(int value) { return value - 1; }
int NAME(int value) { return shared(first_NAME(value)); }
"""
"""Text of files that have copies of one function, as those of C++ programs do."""
_HOOKS = ("-finstrument-functions",)
_FIRST_GCC = 8
"""First version of gcc that prepares functions."""


@click.command("cc-flags", short_help="Print how to compile a program so that its functions are recorded.")
@click.option(
    "--header", is_flag=True, help="Print only what chimbuko.h needs: the compiler instruments no function."
)
@click.option(
    "--folder", is_flag=True, help="Print the folder of chimbuko.h, chimbuko.pc and the Fortran module."
)
def command(header: bool, folder: bool) -> None:
    """Print flags of gcc and clang with which 'chimbuko trace' sees a program's functions.

    Files and lines of functions come from the debug information (-g). What is compiled so runs as before
    without 'chimbuko trace', a little slower. The flags are those for the compiler of CC, or else of mpicc,
    or else cc. On x86-64 gcc and clang prepare functions, so that those that are left out cost nothing.

    \b
    Examples:
      mpicc -O2 $(chimbuko cc-flags) app.c -o app
      mpicc -cc=clang -O2 $(CC=clang chimbuko cc-flags) app.c -o app
      mpicc -O2 $(chimbuko cc-flags --header) app.c -o app
      PKG_CONFIG_PATH=$(chimbuko cc-flags --folder) pkg-config --cflags chimbuko
      D=$(chimbuko cc-flags --folder); mpicc -c $D/chimbuko_fortran.c
      mpif90 chimbuko_fortran.o $D/chimbuko.f90 app.f90 -o app
    """
    flags = [f"-I{INCLUDE}", "-g"]
    if not header:
        flags += function_flags(compiler_at_hand(os.environ))
    click.echo(str(INCLUDE) if folder else " ".join(flags))


def compiler_at_hand(environment: Mapping[str, str]) -> str:
    """Return the command of the compiler that a user would run: that of CC, of mpicc, or cc."""
    if named := shlex.split(environment.get("CC", "")):
        return named[0]
    return next((name for name in ("mpicc", "cc") if shutil.which(name, path=environment.get("PATH"))), "cc")


def function_flags(compiler: str) -> tuple[str, ...]:
    """Return the best flags that a compiler has for programs whose functions are recorded."""
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return _HOOKS
    # Apple's has no XRay for its format of binaries.
    if platform.machine() != "x86_64" or "Apple" in done.stdout:
        return _HOOKS
    if "clang" in done.stdout:
        return _CLANG
    version = re.match(r".*\) (\d+)\.", done.stdout) if "Free Software Foundation" in done.stdout else None
    return _flags_of_gcc(compiler) if version and int(version[1]) >= _FIRST_GCC else _HOOKS


def _flags_of_gcc(compiler: str) -> tuple[str, ...]:
    """Return flags with which a gcc links programs in C++, where it compiles any."""
    with_own_assembler = (*_GCC, _OWN_ASSEMBLER)
    for flags in (_GCC, with_own_assembler):
        if _links_copies(compiler, flags):
            return flags
    return _HOOKS if _links_copies(compiler, ()) else _GCC


def _links_copies(compiler: str, flags: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory(prefix="chimbuko-cc-flags-") as name:
        files = [Path(name, f"{file}.cc") for file in ("one", "other")]
        for file in files:
            file.write_text(_CXX_FILE.replace("NAME", file.stem))
        words = [compiler, "-O2", "-fPIC", "-shared", "-nostdlib", *flags, *map(str, files)]
        done = subprocess.run([*words, "-o", f"{name}/linked.so"], capture_output=True, timeout=60)
        return done.returncode == 0
