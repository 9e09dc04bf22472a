"""Demangling: names of C++ and Fortran functions as people write them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]


def _load() -> Callable[..., int | None] | None:
    """Return the demangling function of the C++ library; None where there is none.

    TAU uses the same function for its own names. ADIOS2 is written in C++, so the library is there.
    """
    with suppress(OSError, AttributeError):
        made: Any = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        made.restype = ctypes.c_void_p
        made.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return cast(Callable[..., int | None], made)
    return None


_demangle = _load()
_OF_MODULE = re.compile(r"__(?P<module>[a-z]\w*?)_MOD_(?P<name>[a-z]\w*)")
"""Symbol that GNU's compiler gives to a procedure in a Fortran module; Fortran's names have no capitals."""


def demangled(name: str) -> str:
    """Return the readable name of a function.

    A C++ function has its scope and the types of its arguments, a procedure of a Fortran module is
    ``module::procedure``, and any other name stays as it is.
    """
    if found := _OF_MODULE.fullmatch(name):
        return f"{found['module']}::{found['name']}"
    if not name.startswith("_Z") or _demangle is None:
        return name
    status = ctypes.c_int()
    text = _demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        _libc.free(text)
