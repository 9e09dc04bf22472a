"""How kernels are declared: what all of them have in common stands here, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

COMMON: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
"""``cache``: no start waits for a compiler; ``nogil``: no thread waits for a kernel. Nobody calls one from C:
wrappers for that took 2 % of the time of compiling."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Declare a kernel."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """Declare a kernel that only kernels call: its wrapper for Python would take 20 to 150 ms to compile."""
    return _compiled(function, no_cpython_wrapper=True)


def inlined(function: Function) -> Function:
    """Declare a kernel that becomes part of each one that calls it, before types are known."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    compiled: Any = njit(**COMMON, **options)(function)
    return compiled
