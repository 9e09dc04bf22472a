"""Recording of calls by a library in C, as far as the budget goes by which native programs are recorded, too.

Functions that are called often and are short are left out; see ``library/pythoncalls.c``.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys

from chimbuko.instrument.hooks.codes import CALL_COUNTS, LEFT_OUT, LEFT_OUT_FUNCTIONS, UNCOUNTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType
    from typing import Any

    from chimbuko.instrument.hooks.functions import Recorder

OVERHEAD_VARIABLE = "CHIMBUKO_OVERHEAD"
"""Environment variable with the budget, that of ``instrument.recorder``, which would load numpy."""
USUAL_OVERHEAD = 0.02
LOOKS_PER_DESCRIPTION = 10
"""Looks after which is said what was left out, so that a killed program has said it; it takes 0.1 ms."""
MOST_NAMED = 10
OTHERS = "functions beyond the first 4,095"

_NEW = 0
"""Answer of the library about a function that it does not know, or on a thread that it does not know."""


class _LeftOut:
    """Function that was left out."""

    __slots__ = ("calls", "name", "samples", "uncounted_ns")

    def __init__(self, name: str, values: Sequence[int]) -> None:
        self.name = name.partition(" [{")[0]
        self.calls, self.uncounted_ns, self.samples = values

    def uncounted_text(self) -> str:
        """Return from when on its calls were not counted."""
        text = f"of {self.name} from {self.uncounted_ns / 1e9:.2f} s on"
        return f"{text}, but for {_number_of(self.samples, 'sample')}" if self.samples else text


class CallBudget:
    """Budget of the calls of one recording.

    Parameters
    ----------
    path
        Path of the library.

    Raises
    ------
    OSError, AttributeError
        The library cannot be loaded into this Python, or is of another version.
    """

    def __init__(self, path: str) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise OSError("the library needs Python's lock")
        self._library = library = ctypes.PyDLL(path)
        whole, wide, count, thing = ctypes.c_int, ctypes.c_int64, ctypes.c_uint32, ctypes.py_object
        address = ctypes.c_void_p
        kinds: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "begin_recording": (None, (ctypes.c_double, whole, *[thing] * 4)),
            "end_recording": (None, ()),
            "begin_thread": (None, (address, address)),
            "work_name": (ctypes.c_char_p, (count,)),
            "number_work": (None, (count, wide)),
            "is_thread_begun": (whole, ()),
            "add_function": (ctypes.c_int32, (address, wide, thing, thing)),
            "forget_function": (None, (address,)),
            "step_frame": (whole, (thing, whole)),
            "adopt_frame": (whole, (thing,)),
            "look": (None, ()),
            "take_restart": (whole, ()),
            "describe_rows": (None, (count, address)),
            "set_hook": (None, (thing,)),
            "new_callback": (thing, (whole, whole, thing)),
        }
        for name, (result, arguments) in kinds.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._names: list[str] = []
        self._looks = 0
        self._is_work_numbered = False
        self.overhead = _overhead()
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
        self._names = [OTHERS]
        self._looks = 0
        self._is_work_numbered = False
        # The library only points to them; they live as long as Python.
        self._library.begin_recording(self.overhead, disable is not None, None, disable, "call", "return")

    def begin_thread(self, recorder: Recorder) -> None:
        """Record calls of the calling thread, and what it does in long ones, in its buffer."""
        if not self._is_work_numbered:
            self._is_work_numbered = True
            for place in itertools.count():
                name = self._library.work_name(place)
                if name is None:
                    break
                self._library.number_work(place, recorder.counter_number(name.decode()))
        buffer = recorder.buffer()
        self._library.begin_thread(id(buffer.events), id(buffer.work))

    def skip_thread(self) -> None:
        """Record nothing of the calling thread."""
        self._library.begin_thread(None, None)

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
        said = (ctypes.c_int64 * 3 * len(self._names))()
        self._library.describe_rows(len(said), said)
        functions = [
            _LeftOut(name, values) for name, values in zip(self._names, said, strict=True) if any(values)
        ]
        if not functions:
            return {}
        functions.sort(key=lambda function: -function.calls)
        uncounted = [function for function in functions if function.uncounted_ns]
        calls = sum(function.calls for function in functions)
        # JSON; the module would come into each process of a program.
        counts = f'{{"{LEFT_OUT}": {calls}, "{UNCOUNTED}": {len(uncounted)}}}'
        named = _listed([f"{one.calls} of {one.name}" for one in functions if one.calls])
        text = f"{calls} calls ({', '.join(named)})" if named else f"{calls} calls"
        if uncounted:
            text += (
                f", and those not counted {'; '.join(_listed([one.uncounted_text() for one in uncounted]))}"
            )
        text += f"; their time is in that of their callers; the tracer's budget is {self.overhead:.2%}"
        return {
            CALL_COUNTS: counts,
            LEFT_OUT_FUNCTIONS: f"{text}; to record more of them give 'chimbuko trace' a larger --overhead",
        }


def _overhead() -> float:
    try:
        given = float(os.environ.get(OVERHEAD_VARIABLE, ""))
    except ValueError:
        given = 0.0
    return given if 0 < given <= 1 else USUAL_OVERHEAD


def _listed(texts: list[str]) -> list[str]:
    others = len(texts) - MOST_NAMED
    return texts if others <= 0 else [*texts[:MOST_NAMED], f"and {_number_of(others, 'other function')}"]


def _number_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
