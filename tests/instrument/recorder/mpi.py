"""The MPIs of this machine, and programs built with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WHEELS = Path(sys.executable).parent


@dataclass(frozen=True)
class Mpi:
    """One MPI: its launcher and its compilers."""

    name: str
    folder: str
    """Of its commands; empty for those on the PATH."""
    suffix: str = ""
    packages: str = ""
    """Debian's packages of it."""

    def command(self, name: str) -> str | None:
        """Path of one of its commands."""
        return shutil.which(name + self.suffix, path=self.folder or os.environ["PATH"])

    def build(self, source: Path, program: Path, compiler: str = "mpicc", *flags: str) -> Path:
        """Compile a program."""
        command = self.command(compiler)
        assert command is not None, f"no {compiler} of {self.name}"
        words = [command, "-O2", "-g", *flags, str(source), "-o", str(program)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return program

    def launch(self, ranks: int) -> list[str]:
        """Begin of a command line for so many ranks, also as root and with fewer cores."""
        command = self.command("mpirun")
        assert command is not None
        more = ["--allow-run-as-root", "--oversubscribe"] if self.name == "openmpi" else []
        return [command, *more, "-n", str(ranks)]


WHEEL = Mpi("mpich of the wheel", str(WHEELS))
DEBIANS_MPICH = Mpi("mpich", "", ".mpich", "mpich libmpich-dev")
OPEN_MPI = Mpi("openmpi", "", ".openmpi", "openmpi-bin libopenmpi-dev")


def why_missing(mpi: Mpi, compiler: str) -> str:
    """Why a test cannot be done here; empty where it can."""
    if mpi.command("mpirun") is None or mpi.command(compiler) is None:
        packages = f"{mpi.packages} gfortran" if compiler == "mpif90" else mpi.packages
        return f"no {compiler} of {mpi.name}: apt-get install {packages}"
    return ""
