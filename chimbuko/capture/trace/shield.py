"""The shield: a C library that keeps an application alive when a reader over SST dies while it joins.

It is built at first use by the system's compiler and kept for this user. With builds of ADIOS2 that it was
not tested with it does nothing; a report says whether an application was shielded.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from chimbuko.runtime.preload import PRELOAD_VARIABLE, compile_with, find_compiler, kept_library, key_of

CHECKED_BUILDS = {
    "4e2e34434d31fdd68ad21c39e478bce6ce1352d0+278de6929e925874565230a2a49c9ab99b229c9b": "2.12.1.1001",
    "99647c2ba106cd823643aaa14af7ade9c4e2887b+53f34d72c65a03907fbefed9c91506e358b1f079": "2.12.0.1003",
    "e305f9fbcf73c869bad7f25b82b02f3f4e6d7faf+fa42d84a4f406cead4bca785c5a6b3e8d70c25c4": "2.12.0.1002",
    "f5597bab040d449e6b94303db48252e81020cd0b+151b60836b89e491b32975062949aee27c344c70": "2.12.0.1001",
    "6c05533f35d82426dfe660942b6c94f836fdb3bb+c78c3080bc3573a1ba50b7d2a8948a635db77dfd": "2.12.0.1000",
    "865105e6d1cabba7eaaf19199b15f02ce1a4d5fa+88f2df7fc3a1197c46ed1f6cea1f68e4565ec812": "2.11.0.1014",
    "93de3aff1aa9856a0bacc32ce80f5720efc04a13+f4912f737703bc7e6fa3927b8e95d9a35c170726": "2.10.2.100774",
}
"""Versions of the package adios2 on PyPI (x86-64, CPython 3.11), by pairs of the GNU build ids of its
``libadios2_evpath`` and ``libadios2_core``. A pair is added after ``tests/capture/shield/kills.py`` has shown
that no kill of a reader harms the writer: at least 110 with steps of 20 ms, and 40 with steps of 1 s."""


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


REPORT_VARIABLE = "CHIMBUKO_SHIELD_REPORT"

ADVICE = "use --transport files, the default, where no reader can reach the program"


def shield_environment(
    folder_for_reports: Path,
    environment: Mapping[str, str],
    builds: Collection[str] = CHECKED_BUILDS,
) -> dict[str, str]:
    """Return the environment of an application that is to be shielded.

    Parameters
    ----------
    folder_for_reports
        Folder, on the same node, in which each process that streams over SST leaves a line.
    environment
        Environment of the application without the shield; its own ``LD_PRELOAD`` is kept, behind the shield.

    Raises
    ------
    ConfigError
        The library cannot be built or kept here.
    """
    library = shield_library(environment, builds)
    preloaded = " ".join(filter(None, [str(library), environment.get(PRELOAD_VARIABLE, "")]))
    return {**environment, PRELOAD_VARIABLE: preloaded, REPORT_VARIABLE: str(folder_for_reports)}


def shield_problems(folder: Path, streams: int = 0) -> list[str]:
    """Return sentences on the shield for a run's summary; none if it was active.

    Parameters
    ----------
    folder
        Folder in which the processes have left their reports.
    streams
        Number of streams over SST: if there were any and no report, no process had the shield.
    """
    if not (reports := _reports(folder)):
        if not streams:
            return []
        return [
            "the shield against dying readers was loaded by no process that streamed over SST "
            f"(is its ADIOS2 linked statically, or LD_PRELOAD taken away?); {ADVICE}"
        ]
    unknown = Counter(Path(words[2]).name for words in reports if words[0] == "unknown")
    return [
        f"the shield against dying readers is off in {count} process{'es' if count > 1 else ''}: "
        f"the ADIOS2 there ({name}) is not among the builds that it was checked with; {ADVICE}"
        for name, count in sorted(unknown.items())
    ]


def shield_states(folder: Path) -> Counter[str]:
    """Return the number of processes by state, ``active`` or ``unknown``."""
    return Counter(words[0] for words in _reports(folder))


def _reports(folder: Path) -> list[list[str]]:
    """Return each process's state, pair of build ids, and for an unknown one the path of libadios2_evpath."""
    reports: list[list[str]] = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".txt"))
    except OSError:
        return reports
    for name in names:
        try:
            words = (folder / name).read_text(errors="replace").rstrip("\n").split(" ", 2)
        except OSError:
            continue
        if (words[0] == "active" and len(words) == 2) or (words[0] == "unknown" and len(words) == 3):
            reports.append(words)
    return reports
