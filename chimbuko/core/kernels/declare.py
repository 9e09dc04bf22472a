"""Declaration of kernels, with the settings that all of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from chimbuko.core.kernels.cache import use_cache

# Numba reads where its cache is when it is loaded.
use_cache()

from numba import njit  # noqa: E402

COMMON: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
}
"""Settings of all kernels. ``cache``: no start waits for a compiler; ``nogil``: no thread waits for a kernel.

The others shorten compiling: kernels raise nothing, also where they divide by 0 (2 %); nobody calls one
from C (2 %); and expressions of whole arrays and powers of constants, which numba could rewrite, are not
in them (5 %).
"""

Whole = int | np.int64

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Declare a kernel."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """Declare a kernel that only kernels call, with the same types: it is compiled for each combination.

    A number that is a constant is a type of its own, so ``np.int64(0)`` has to be written instead of ``0``. A
    wrapper for Python would take 20 to 150 ms to compile, and to keep the kernel by itself 5 ms: it is kept
    as a part of the kernels that call it.
    """
    return _compiled(function, no_cpython_wrapper=True, cache=False)


def inlined(function: Function) -> Function:
    """Declare a kernel that becomes part of each one that calls it, before types are known.

    Only for a line or two: what is typed and lowered in each caller took 4 % of the time of compiling.
    """
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    compiled: Any = njit(**(COMMON | options))(function)
    return compiled
