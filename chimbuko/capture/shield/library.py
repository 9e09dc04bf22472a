"""The shield's C library: built at first use by the system's compiler, and kept for this user."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from chimbuko.capture.shield.builds import CHECKED_BUILDS
from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of

SOURCE = Path(__file__).with_name("shield.c")
WHAT = "the shield"
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden"),
    # A function that an older C library lacks then matters only where it is called, which is beside ADIOS2.
    *("-Wl,-z,lazy", "-Wl,--as-needed"),
)


def shield_library(
    environment: Mapping[str, str] = os.environ, builds: Collection[str] = CHECKED_BUILDS
) -> Path:
    """Path of the built library; it is built where it is not there yet, which takes some 0.2 s.

    Parameters
    ----------
    environment
        Where ``CC``, ``PATH``, ``XDG_CACHE_HOME``, ``HOME`` and ``TMPDIR`` are looked up.
    builds
        Pairs of build ids of ADIOS2 with which it acts, see :data:`CHECKED_BUILDS`.

    Raises
    ------
    ConfigError
        No compiler, none that works, or no folder of this user's own to keep the library in.
    """
    compiler = find_compiler(environment, WHAT)
    table = "".join(f'"{build}",' for build in sorted(builds))

    def build(library: Path) -> None:
        words = [*compiler, *FLAGS, f"-DCHECKED_BUILDS={table}", "-o", str(library), str(SOURCE), "-ldl"]
        compile_with(words, environment, WHAT, "set CC")

    key = key_of(SOURCE.read_bytes(), " ".join(compiler), *FLAGS, table)
    return kept_library(f"shield-{key}.so", build, environment, WHAT)
