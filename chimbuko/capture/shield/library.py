"""Build of the shield's C library, at first use, by the system's compiler; it is kept for this user."""

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
    # Functions are resolved when they are called: only processes with ADIOS2 need those of a newer C library.
    *("-Wl,-z,lazy", "-Wl,--as-needed"),
)


def shield_library(
    environment: Mapping[str, str] = os.environ, builds: Collection[str] = CHECKED_BUILDS
) -> Path:
    """Return the path of the library, which is built where it is not there yet; that takes some 0.2 s.

    Parameters
    ----------
    environment
        Environment with ``CC``, ``PATH``, ``XDG_CACHE_HOME``, ``HOME`` and ``TMPDIR``.
    builds
        Pairs of build ids of ADIOS2 with which the shield acts, see :data:`CHECKED_BUILDS`.

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
