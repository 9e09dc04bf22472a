"""Recording of pauses that Python makes in a call of the program: garbage collection, and imports."""

from __future__ import annotations

import _thread
import gc
import importlib
from contextlib import suppress
from time import perf_counter_ns

from chimbuko.core.pauses import Pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol

    class PauseRecorder(Protocol):
        """Recorder of the values of counters."""

        def count(self, name: str, value: float) -> None:
            """Record the value of a counter in the calling thread."""

    FindAndLoad = Callable[[str, Any], ModuleType]

LEAST_NS = 1_000_000
"""Minimum length of a pause that is recorded: most collections take some 10 µs, and explain no slow call."""

_bootstrap: Any = importlib._bootstrap


class Pauses:
    """Recording of the pauses in all threads of a process.

    It costs a program nothing in its calls: a collection costs 0.3 µs more, and so does the first import of a
    module. A collection at the very limit of recursion is not recorded, as nothing can be called there.

    Parameters
    ----------
    recorder
        Recorder of the pauses, whose counters have their lengths in µs.
    library
        Path of the library that keeps Python from writing about such a collection; empty for none.
    """

    def __init__(self, recorder: PauseRecorder, library: str = "") -> None:
        self._count = recorder.count
        self._library = library
        self._began_ns = 0
        self._importing: set[int] = set()
        """Threads that import."""
        self._find_and_load: FindAndLoad = _bootstrap._find_and_load

    def install(self) -> None:
        """Record pauses from now on."""
        if self._library:
            _silence(Pauses._collected, self._library)
        gc.callbacks.append(self._collected)
        # Python's own imports look for this function each time; only those of modules that are not loaded do.
        _bootstrap._find_and_load = _hidden_in_tracebacks(self._importer())

    def remove(self) -> None:
        """Record pauses no more."""
        with suppress(ValueError):
            gc.callbacks.remove(self._collected)
        _bootstrap._find_and_load = self._find_and_load

    def _collected(self, phase: str, about: dict[str, int]) -> None:
        # One collection at a time, and in one thread.
        if phase == "start":
            self._began_ns = perf_counter_ns()
        elif began_ns := self._began_ns:
            # The next begin may be at the limit of recursion, and be missed.
            self._began_ns = 0
            self._note(Pause.COLLECTION, f"generation {about['generation']}", perf_counter_ns() - began_ns)

    def _importer(self) -> FindAndLoad:
        find_and_load, importing, note = self._find_and_load, self._importing, self._note

        def _find_and_load(name: str, import_: Any) -> ModuleType:
            thread = _thread.get_ident()
            if thread in importing:
                return find_and_load(name, import_)
            importing.add(thread)
            began_ns = perf_counter_ns()
            try:
                return find_and_load(name, import_)
            finally:
                importing.discard(thread)
                note(Pause.IMPORT, name, perf_counter_ns() - began_ns)

        return _find_and_load

    def _note(self, kind: Pause, what: str, length_ns: int) -> None:
        if length_ns >= LEAST_NS:
            self._count(kind.counter(what), length_ns // 1000)


def _silence(function: Callable[..., None], library: str) -> None:
    """Have the errors of a function forgotten where Python calls it by itself."""
    # Not for all: where functions are recorded without a library, nothing else loads it.
    import ctypes

    with suppress(AttributeError, OSError):
        silence = ctypes.PyDLL(library).silence
        silence.argtypes = ctypes.py_object, ctypes.c_size_t, ctypes.py_object
        silence(function, function.__sizeof__() // 8, None)


def _hidden_in_tracebacks(function: FindAndLoad) -> FindAndLoad:
    """Return an import function that Python leaves out of tracebacks, as it does its own by their file."""
    function.__code__ = function.__code__.replace(
        co_filename=_bootstrap._find_and_load_unlocked.__code__.co_filename
    )
    return function
