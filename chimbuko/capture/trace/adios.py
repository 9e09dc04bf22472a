"""ADIOS2's own interface, without what its package for Python loads beside it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ARRAY_LIBRARIES = "cupy", "torch"
"""``adios2`` loads them where they are installed, to write what is in a GPU's memory: 7 s of CPU time and
hundreds of MB in each process, of which we use nothing."""


def adios2_bindings() -> Any:
    """Return the module ``adios2.bindings``, loaded at the first call: most of our commands need no stream.

    Raises
    ------
    ImportError
        It is not installed, or does not work here.
    """
    # It looks there for settings of its user's, and crashes where there is no such variable.
    os.environ.setdefault("HOME", os.path.expanduser("~"))
    with without(ARRAY_LIBRARIES):
        import adios2.bindings as adios2
    return adios2


@contextmanager
def without(names: tuple[str, ...]) -> Iterator[None]:
    """Have modules that are not loaded yet look as if they were not installed, while others are loaded."""
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


def adios2_reason(error: Exception) -> str:
    """Return the text of an ADIOS2 message, without the decorations that it begins with."""
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", str(error)).split())
    return text.partition("> : ")[2] or text or type(error).__name__
