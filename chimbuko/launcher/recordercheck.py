"""Whether programs can be recorded here without TAU, and with which MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from chimbuko.capture.trace.discovery import STREAM_PREFIX
from chimbuko.core.errors import ConfigError
from chimbuko.instrument.recorder.library import WHAT, recorder_library
from chimbuko.instrument.recorder.mpi import mpi_of
from chimbuko.launcher.nodecheck import Finding
from chimbuko.runtime.preload import compile_with, find_compiler

ABOUT = "recorder"
ADVICE = "or record with TAU, or a Python program with 'chimbuko trace'"
ENDED_S = 20.0
LOOK_PERIOD_S = 0.05
_BECOME = """
import os, pathlib, sys
from chimbuko.instrument.recorder.launch import become
from chimbuko.instrument.recorder.library import NativeProgram
become(NativeProgram(pathlib.Path(sys.argv[1]), "", is_elf=True), sys.argv[1:], os.environ)
"""
_SOURCE = """
__attribute__((noinline)) int work(int number);
int work(int number) { return number + 1; }
int main(void) { return work(-1); }
"""
_MPI_SOURCE = """
#include <mpi.h>
int main(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize(); }
"""


def check_recorder() -> Finding:
    """Build the library for the MPI on the PATH, if there is one, and record a small program with it."""
    environment = dict(os.environ)
    mpicc = shutil.which("mpicc")
    with TemporaryDirectory(prefix="chimbuko-doctor-") as name:
        folder = Path(name)
        try:
            compiler = [mpicc] if mpicc else find_compiler(environment, WHAT)
            program = folder / "program"
            source = folder / "program.c"
            source.write_text(_MPI_SOURCE if mpicc else _SOURCE)
            words = [*compiler, "-finstrument-functions", str(source), "-o", str(program)]
            compile_with(words, environment, "a program", "set PATH or CC")
            mpi = mpi_of(program, environment)
            recorder_library(mpi, environment)
            recorded = _is_recorded(program, folder, environment)
        except (ConfigError, OSError, subprocess.SubprocessError) as error:
            return Finding(ABOUT, "warning", f"programs run, and are not recorded: {error}", ADVICE)
    built = f"built by {compiler[0]} for " + ("programs without MPI" if mpi is None else f"{mpi.path}")
    if not recorded:
        return Finding(ABOUT, "warning", f"{built}; a program that it recorded left no stream", ADVICE)
    more = "; there is no mpicc on the PATH, so MPI programs are not recorded" if mpi is None else ""
    return Finding(ABOUT, "ok", f"{built}, and a program was recorded with it{more}")


def _is_recorded(program: Path, folder: Path, environment: Mapping[str, str]) -> bool:
    streams = folder / "streams"
    streams.mkdir()
    own = {**environment, "TAU_ADIOS2_FILENAME": str(streams / STREAM_PREFIX), "TAU_ADIOS2_ENGINE": "BP4"}
    own.pop("TAU_ADIOS2_CONFIG_FILE", None)
    words = [sys.executable, "-P", "-c", _BECOME, str(program)]
    subprocess.run(words, env=own, timeout=ENDED_S, capture_output=True, check=True)
    latest = time.monotonic() + ENDED_S
    while time.monotonic() < latest:
        if any((found / "md.idx").exists() for found in streams.glob("*.bp")):
            return True
        time.sleep(LOOK_PERIOD_S)
    return False
