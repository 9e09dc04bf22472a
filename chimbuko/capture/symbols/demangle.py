"""Names of C++ and Fortran functions as people write them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]


def _load() -> Callable[..., int | None] | None:
    """The function of the C++ library that TAU's own names come from as well, in another build. ADIOS2 is
    written in C++: so there is one wherever we run.
    """
    with suppress(OSError, AttributeError):
        made: Any = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        made.restype = ctypes.c_void_p
        made.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return cast(Callable[..., int | None], made)
    return None


_demangle = _load()
_OF_MODULE = re.compile(r"__(?P<module>[a-z]\w*?)_MOD_(?P<name>[a-z]\w*)")
"""A procedure of a Fortran module, as GNU's compiler calls it: Fortran's own names have no capitals."""


def demangled(name: str) -> str:
    """A C++ function with its scope and the types of its arguments, a procedure of a Fortran module as
    ``module::procedure``; any other name as it is.
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
