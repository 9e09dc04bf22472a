"""Declaration of kernels: which form of them a process uses.

Usually that is the library that was compiled ahead of time. Without one numba compiles them in the process,
or takes them from its cache, and with ``NUMBA_DISABLE_JIT=1`` they stay plain Python, as for measuring how
much of them tests run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from chimbuko.core.kernels import library
from chimbuko.core.kernels.signatures import described, name_of, numba_type, signatures, widened

COMMON: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
}
"""Settings of all kernels. ``nogil``: no thread waits for a kernel.

The others shorten compiling: kernels raise nothing, also where they divide by 0 (2 %); nobody calls one
from C (2 %); and expressions of whole arrays and powers of constants, which numba could rewrite, are not
in them (5 %).
"""

CHECKED_CALLS = 4
"""Number of calls of each kernel in a process whose types are checked, for 0.1 ms each; in tests all are."""

Whole = int | np.int64

Function = TypeVar("Function", bound=Callable[..., Any])

recorded: dict[str, list[Any]] = {}
"""Types of the arguments of all calls of each kernel, where they are recorded."""
_FORM = os.environ.get(library.FORM_VARIABLE, "")
_IS_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or _FORM == "recorded"
_IS_OF_NUMBA = not _IS_PLAIN and (_FORM in ("jit", "source") or library.is_of_numba())


def kernel(function: Function) -> Function:
    """Declare a kernel that is called from Python, with arguments of the types in ``signatures.json``."""
    if _FORM == "recorded":
        return _recording(function)
    if _IS_PLAIN:
        return function
    name = name_of(function)
    if _IS_OF_NUMBA:
        _by_numba[name] = _jit(function, cache=name in signatures() and _FORM != "source")
        return _by_numba[name]
    # What only kernels call is not in the library by itself.
    return _from_library(function, name) if name in signatures() else function


def inner(function: Function) -> Function:
    """Declare a kernel that only kernels call, with the same types: it is compiled for each combination.

    A number that is a constant is a type of its own, so ``np.int64(0)`` has to be written instead of ``0``. A
    wrapper for Python would take 20 to 150 ms to compile.
    """
    return _jit(function, no_cpython_wrapper=True) if _IS_OF_NUMBA else function


def inlined(function: Function) -> Function:
    """Declare a kernel that becomes part of each one that calls it, before types are known.

    Only for a line or two: what is typed and lowered in each caller took 4 % of the time of compiling.
    """
    return _jit(function, inline="always") if _IS_OF_NUMBA else function


def load_all() -> None:
    """Load the library, or else what numba compiles of the modules that are loaded; forks of this process
    need not, then.
    """
    library.load()
    for name, dispatcher in _by_numba.items():
        if name in signatures():
            dispatcher.compile(tuple(map(numba_type, signatures()[name])))


_by_numba: dict[str, Any] = {}
"""Kernels that numba compiles in this process."""


def _jit(function: Function, **options: Any) -> Function:
    # Numba reads where its cache is when it is loaded, which takes 0.5 s.
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(library.place() / "numba")
    from numba import njit

    compiled: Any = njit(**(COMMON | options))(function)
    return compiled


def _recording(function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        # Only the outermost kernel is called from Python.
        if not _running:
            given = list(map(described, arguments))
            recorded[name] = list(map(widened, given, recorded.get(name, given)))
        _running.append(name)
        try:
            return function(*arguments)
        finally:
            _running.pop()

    name = name_of(function)
    return call


_running: list[str] = []
"""Kernels that are being called, where types are recorded."""


def _from_library(function: Any, name: str) -> Any:
    """Return a kernel that is looked up in the library by its first call: a first run builds that after this
    module is loaded.

    The types of the first calls are checked: the library believes what it is given, and would write anywhere.
    """
    types = signatures()[name]
    compiled: Any = None
    left = sys.maxsize if _FORM == "checked" else CHECKED_CALLS

    def call(*arguments: Any) -> Any:
        nonlocal compiled, left
        if left:
            left -= 1
            check(list(map(described, arguments)))
            if compiled is None:
                # Plain Python is slow, and right: in a run that had numba compile them for want of a library.
                compiled = getattr(library.load(), name.replace(".", "_"), function)
        return compiled(*arguments)

    def check(given: list[Any]) -> None:
        with suppress(TypeError, ValueError):
            if given == types or [widened(*pair) for pair in zip(given, types, strict=True)] == types:
                return
        raise TypeError(f"{name} is called with {given}, and was compiled for {types}")

    return call
