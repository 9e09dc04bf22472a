"""Build of the library by which Python functions are recorded as far as a budget goes, at first use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from chimbuko.runtime.preload import compile_with, find_compiler, kept_library, key_of

_INSTRUMENT = Path(__file__).parent.parent
FOLDERS = (_INSTRUMENT / "hooks" / "library", _INSTRUMENT / "recorder" / "library")
"""Folders of the sources: that of the hook, and that of the recorder, whose budget and counters it shares."""
SOURCES = (FOLDERS[0] / "pythoncalls.c", FOLDERS[1] / "budget.c", FOLDERS[1] / "work.c")
HEADERS = (FOLDERS[0] / "pointermap.h", FOLDERS[1] / "budget.h", FOLDERS[1] / "work.h")
WHAT = "the budget of Python functions"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-z,lazy")


def hook_library(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the library, which is built where it is not there yet; that takes half a second.

    It needs nothing of Python to be built, and serves each version of it.

    Raises
    ------
    ConfigError
        There is no compiler, none that works, or no folder to keep the library in.
    """
    texts = [path.read_bytes() for path in (*SOURCES, *HEADERS)]

    def build(library: Path) -> None:
        words = [*find_compiler(environment, WHAT), *FLAGS, *(f"-I{folder}" for folder in FOLDERS)]
        words += ["-o", str(library), *map(str, SOURCES), "-ldl", "-lpthread"]
        compile_with(words, environment, WHAT, "all functions are recorded, whatever it costs")

    name = f"pythoncalls-{key_of(*texts, *FLAGS, environment.get('CC', ''))}.so"
    return kept_library(name, build, environment, WHAT)
