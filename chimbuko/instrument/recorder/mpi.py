"""Detection of the MPI that a program uses, and of a compiler for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.preload import compile_with

COMPILERS = ("mpicc", "mpicc.mpich", "mpicc.openmpi", "cc", "mpiicx", "mpiicc")
"""Names of compilers for C programs with MPI, in the order in which they are looked for."""
LAUNCHERS = ("mpirun", "mpiexec", "srun")
_LIBRARY = re.compile(r"lib(?:mpi|mpich|mpi_abi|mpi_cray|mpi_gnu_\d+)\.so(?:\.\d+)*")
_LOADED = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
_TRIAL = "#include <mpi.h>\nint trial(void);\nint trial(void) { return MPI_Finalize(); }\n"


@dataclass(frozen=True)
class MpiLibrary:
    """MPI library as the dynamic linker finds it for a program."""

    soname: str
    path: Path

    @property
    def build(self) -> str:
        """Text that distinguishes this library from others of its name."""
        real = self.path.resolve()
        found = real.stat()
        return f"{self.soname} {real} {found.st_size} {found.st_mtime_ns}"


def mpi_of(program: Path, environment: Mapping[str, str] = os.environ) -> MpiLibrary | None:
    """Return the MPI that a program is linked with; None if ``ldd`` shows none."""
    listing = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, errors="replace", env=dict(environment)
    ).stdout
    for found in _LOADED.finditer(listing):
        if is_mpi(found["name"]):
            return MpiLibrary(found["name"], Path(found["path"]))
    return None


def is_mpi(library: str) -> bool:
    """Whether the name of a file is that of an MPI library."""
    return _LIBRARY.fullmatch(library) is not None


def find_mpi_compiler(mpi: MpiLibrary, environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of a compiler that links programs with this MPI.

    Raises
    ------
    ConfigError
        There is no such compiler.
    """
    tried = []
    for compiler in dict.fromkeys(_candidates(mpi, environment)):
        linked = _linked_with(compiler, environment)
        if mpi.soname in linked:
            return compiler
        tried.append(compiler)
    also = f" ({', '.join(tried)} are for others)" if tried else ""
    raise ConfigError(
        f"no compiler for the MPI of the program, {mpi.path}{also}; "
        "put its mpicc on the PATH, or load its module"
    )


def _candidates(mpi: MpiLibrary, environment: Mapping[str, str]) -> Iterator[str]:
    search = environment.get("PATH", os.defpath)
    folders = [str(Path(found).parent) for name in LAUNCHERS if (found := shutil.which(name, path=search))]
    # <prefix>/lib/libmpi.so, or <prefix>/lib/x86_64-linux-gnu/libmpi.so
    above = [str(parent / "bin") for parent in mpi.path.resolve().parents[1:3]]
    for path in (*folders, search, *above):
        for name in COMPILERS:
            if found := shutil.which(name, path=path):
                yield found


def _linked_with(compiler: str, environment: Mapping[str, str]) -> list[str]:
    """Return the libraries that a compiler links; none if it cannot compile a program with MPI."""
    with tempfile.TemporaryDirectory(prefix="chimbuko-mpi-") as folder:
        source, library = Path(folder, "trial.c"), Path(folder, "trial.so")
        source.write_text(_TRIAL)
        words = [compiler, "-shared", "-fPIC", "-o", str(library), str(source)]
        with suppress(ConfigError):
            compile_with(words, environment, "a trial", "")
            return needed_libraries(library)
    return []


def needed_libraries(binary: Path) -> list[str]:
    """Return the names of the libraries that a binary itself is linked with."""
    with suppress(ELFError, OSError), open(binary, "rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        if isinstance(section, DynamicSection):
            # The type of a tag does not say that those of DT_NEEDED have this attribute.
            return [str(tag.needed) for tag in section.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    return []
