"""Recording of calls by a library in C, as far as a budget goes: the one by which native programs are recorded.

What is called often and is short is left out; see ``library/pythoncalls.c``.
"""

from __future__ import annotations

import ctypes
import os
import sys

from chimbuko.instrument.hooks.codes import CALL_COUNTS, LEFT_OUT, LEFT_OUT_FUNCTIONS, UNCOUNTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

OVERHEAD_VARIABLE = "CHIMBUKO_OVERHEAD"
"""Environment variable with the budget, that of ``instrument.recorder``, which would load numpy."""
USUAL_OVERHEAD = 0.02
LOOKS_PER_DESCRIPTION = 10
"""Looks after which is said what was left out, so that a killed program has said it: each takes some 0.1 ms."""
MOST_NAMED = 10
OTHERS = "functions beyond the first 4,095"

_NEW = 0
"""Answer of the library about a function that it does not know, or on a thread that it does not know."""


def usual_overhead() -> float:
    """Return the part of the time that recording may cost, as the environment says."""
    try:
        given = float(os.environ.get(OVERHEAD_VARIABLE, ""))
    except ValueError:
        given = 0.0
    return given if 0 < given <= 1 else USUAL_OVERHEAD


class CallBudget:
    """Budget of the calls of one recording.

    Parameters
    ----------
    path
        Path of the library.

    Raises
    ------
    OSError
        The library cannot be loaded into this Python.
    """

    def __init__(self, path: str) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise OSError("the library needs Python's lock")
        library = ctypes.PyDLL(path)
        self._library = library
        whole, thing, number = ctypes.c_int, ctypes.py_object, ctypes.c_int64
        kinds: dict[str, tuple[Any, list[Any]]] = {
            "begin_recording": (None, [ctypes.c_double, whole, thing * 4]),
            "end_recording": (None, []),
            "begin_thread": (None, [ctypes.c_void_p]),
            "is_thread_begun": (whole, []),
            "add_function": (ctypes.c_int32, [ctypes.c_void_p, number, thing, thing]),
            "forget_function": (None, [ctypes.c_void_p]),
            "step_frame": (whole, [thing, whole]),
            "adopt_frame": (whole, [thing]),
            "look": (None, []),
            "take_restart": (whole, []),
            "left_out_rows": (ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p]),
            "set_hook": (None, [thing]),
            "new_callback": (thing, [whole, whole, thing]),
        }
        for name, (result, arguments) in kinds.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._constants: Any = None
        self._names: list[str] = []
        self._looks = 0
        self.overhead = usual_overhead()
        self.set_hook: Callable[[object], None] = library.set_hook
        """Function that makes an object the profiling hook of the calling thread."""
        self.end: Callable[[], None] = library.end_recording
        """Function that makes each thread ask about its next event."""
        self.take_restart: Callable[[], int] = library.take_restart
        """Function that returns whether Python has to tell again of what it was not to tell."""
        self.new_callback: Callable[[bool, bool, object], object] = library.new_callback
        """Function that returns a callback for ``sys.monitoring``: whether it is for a begin, whether it may
        return ``DISABLE``, and what is asked about functions that are new."""

    def begin(self, disable: object = None) -> None:
        """Begin a recording; ``disable`` is what Python is told about what it need not tell any more."""
        # Kept, as the library only points to them.
        self._constants = (ctypes.py_object * 4)(None, disable, "call", "return")
        self._names = [OTHERS]
        self._looks = 0
        self._library.begin_recording(self.overhead, disable is not None, self._constants)

    def begin_thread(self, events: list[int] | None) -> None:
        """Record calls of the calling thread in a list that lives as long as the thread; None for none."""
        self._library.begin_thread(None if events is None else id(events))

    def is_thread_begun(self) -> bool:
        """Whether the calling thread has said where its calls are recorded."""
        return bool(self._library.is_thread_begun())

    def add(self, function: CodeType, code: int, name: str) -> None:
        """Take over a function that is new: its code, or ``SKIPPED``."""
        row = self._library.add_function(id(function), code, code, code + 1)
        if row == len(self._names):
            self._names.append(name)

    def forget(self, key: int) -> None:
        """Forget a function, by the id of its code."""
        self._library.forget_function(key)

    def step(self, frame: FrameType, is_begin: bool) -> bool:
        """See to a frame that begins or goes on, or that pauses or ends; False if its function is new."""
        return bool(self._library.step_frame(frame, is_begin) != _NEW)

    def adopts(self, frame: FrameType) -> bool:
        """Whether a call that was found open counts as recorded; its end is recorded, then."""
        return bool(self._library.adopt_frame(frame))

    def look(self) -> dict[str, str]:
        """Decide anew; now and then return metadata about what was left out so far."""
        self._library.look()
        self._looks += 1
        return {} if self._looks % LOOKS_PER_DESCRIPTION else self.described()

    def described(self) -> dict[str, str]:
        """Return metadata about what was left out so far; none where nothing was."""
        rows = self._left_out()
        if not rows:
            return {}
        uncounted = [row for row in rows if row[2]]
        counts = {LEFT_OUT: sum(calls for _, calls, _, _ in rows), UNCOUNTED: len(uncounted)}
        return {
            # JSON; the module would come into each process of a program.
            CALL_COUNTS: "{%s}" % ", ".join(f'"{reason}": {number}' for reason, number in counts.items()),
            LEFT_OUT_FUNCTIONS: self._text(rows, uncounted),
        }

    def _left_out(self) -> list[tuple[int, int, int, int]]:
        """Return row, calls, time of the first that was not counted and samples since, the most calls first."""
        said = (ctypes.c_int64 * 3 * max(1, len(self._names)))()
        self._library.left_out_rows(0, len(said), said)
        rows = [(row, *values) for row, values in enumerate(said) if values[0] or values[1]]
        return sorted(((row, calls, at, samples) for row, calls, at, samples in rows), key=_most_first)

    def _text(
        self, rows: list[tuple[int, int, int, int]], uncounted: list[tuple[int, int, int, int]]
    ) -> str:
        total = sum(calls for _, calls, _, _ in rows)
        named = [f"{calls} of {self._name(row)}" for row, calls, _, _ in rows[:MOST_NAMED] if calls]
        if len(rows) > MOST_NAMED:
            named.append(f"and {len(rows) - MOST_NAMED} other functions")
        text = f"{total} calls ({', '.join(named)})"
        if uncounted:
            parts = [
                f"of {self._name(row)} from {at / 1e9:.2f} s on"
                + (f", but for {samples} sample{'s' * (samples != 1)}" if samples else "")
                for row, _, at, samples in uncounted[:MOST_NAMED]
            ]
            if len(uncounted) > MOST_NAMED:
                parts.append(f"and of {len(uncounted) - MOST_NAMED} other functions")
            text += f", and those not counted {'; '.join(parts)}"
        text += f"; their time is in that of their callers; the tracer's budget is {self.overhead:.2%}"
        return f"{text}; to record more of them give it a larger --overhead"

    def _name(self, row: int) -> str:
        return self._names[row].partition(" [{")[0]


def _most_first(row: tuple[int, int, int, int]) -> tuple[int, int]:
    return -row[1], row[0]
