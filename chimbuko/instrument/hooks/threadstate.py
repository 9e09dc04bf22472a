"""The profiling hook of another thread: Python 3.11 gives a thread only its own."""

from __future__ import annotations

import ctypes
import operator
import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PROFILE_FUNCTION, _PROFILE_OBJECT = 64, 80
"""Offsets in a PyThreadState of Python 3.11: the hook as a function of C, and the object that that calls."""


def _word(address: int) -> Any:
    return (ctypes.c_size_t * 1).from_address(address)


class ThreadState:
    """State of the calling thread, in which other threads find and set its hook.

    Each look is one call in C: between two of them the thread could end, and its state be gone.

    Parameters
    ----------
    owner
        Function written in C that returns None once the thread has ended.
    """

    def __init__(self, owner: Callable[[], object]) -> None:
        get_state = ctypes.pythonapi.PyThreadState_Get
        get_state.restype = ctypes.c_void_p
        self._address: int = get_state()
        self._owner = owner
        self._hook = _word(self._address + _PROFILE_OBJECT)

    def function(self) -> int:
        """Return the address of the hook's function; for the own thread only."""
        return int(_word(self._address + _PROFILE_FUNCTION)[0])

    def hook(self) -> int | None:
        """Return the id of the hook's object, 0 without a hook, None once the thread has ended."""
        found: list[int] = []
        _all_in_turn(self._owner, partial(found.extend, self._hook))
        return found[0] if found else None

    def put(self, function: int, hook: object) -> None:
        """Set a hook if the thread still runs and has none."""
        is_free = partial(operator.eq, memoryview(self._hook).cast("B"), bytes(ctypes.sizeof(self._hook)))
        put = _setter(("_PyEval_SetProfile", ctypes.pythonapi))
        _all_in_turn(self._owner, is_free, partial(put, self._address, function, hook))


def put_in_others(function: int, hook: object) -> None:
    """Set a hook in all other threads of this interpreter that have none.

    Without a look at the program's code in between: no thread can end meanwhile.
    """
    calls = ctypes.pythonapi
    for name in (
        "PyThreadState_Get",
        "PyInterpreterState_Get",
        "PyInterpreterState_ThreadHead",
        "PyThreadState_Next",
    ):
        getattr(calls, name).restype = ctypes.c_void_p
    own = calls.PyThreadState_Get()
    states = []
    state = calls.PyInterpreterState_ThreadHead(ctypes.c_void_p(calls.PyInterpreterState_Get()))
    while state:
        states.append(state)
        state = calls.PyThreadState_Next(ctypes.c_void_p(state))
    put = _setter(("_PyEval_SetProfile", calls))
    for state in states:
        if state != own and not _word(state + _PROFILE_OBJECT)[0]:
            put(state, function, hook)


def _setter(symbol: tuple[str, Any]) -> Callable[..., int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)(symbol)


def _all_in_turn(*steps: Callable[[], object]) -> None:
    """Call functions of C until one returns something false; no other thread runs meanwhile."""
    all(map(operator.call, steps))


def is_known() -> bool:
    """Whether the state of a thread lies in memory as is known here; a thread that has a hook may ask."""
    if sys.version_info[:2] != (3, 11) or ctypes.sizeof(ctypes.c_size_t) != 8:
        return False
    return ThreadState(object).hook() == id(sys.getprofile())
