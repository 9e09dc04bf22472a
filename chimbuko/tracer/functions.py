"""Records every call of the program's own Python functions, through the interpreter's profiling hook."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref

import chimbuko
from chimbuko.tracer.eventrecorder import SKIPPED, Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each Python that a traced program starts loads this module.
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    Hook = Callable[[FrameType, str, Any], None]

_OTHERS_FOLDERS = ("/site-packages/", "/dist-packages/")
_OURS = os.path.dirname(chimbuko.__file__) + "/"
_OTHERS = (_OURS, os.path.dirname(os.__file__) + "/", "<")
"""How file names begin that are not the program's; ``<`` is code without a file."""
_INLINED = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))
"""Newer Pythons make no calls of these, so they never count as functions."""

never_recorded: dict[int, weakref.ref[CodeType]] = {}
"""Code objects, by id, that stay out of the trace or that record themselves."""


def function_name(code: CodeType) -> str:
    """As TAU writes it: ``name [{file.py}{line}]``."""
    return f"{code.co_qualname} [{{{os.path.basename(code.co_filename)}}}{{{code.co_firstlineno}}}]"


def exclude(code: CodeType | None) -> None:
    """Keep a function out of the recording of functions; without Python code it is out anyway."""
    if code is None:
        return
    key = id(code)

    def forget(_: weakref.ref[CodeType]) -> None:
        never_recorded.pop(key, None)

    never_recorded[key] = weakref.ref(code, forget)


class FunctionTracing:
    """Puts a hook into each thread that writes an ENTRY and an EXIT for each call.

    Recorded are functions of the program itself: neither the standard library's, nor those of
    installed packages, unless a pattern names them.

    Parameters
    ----------
    recorder
        Where the events go.
    include
        Shell patterns of further functions, as ``module.function``.
    with_builtins
        Also record functions written in C that the recorded ones call.
    """

    def __init__(self, recorder: Recorder, include: tuple[str, ...], with_builtins: bool) -> None:
        self._recorder = recorder
        self._include = include
        self._with_builtins = with_builtins
        self._codes: dict[int, int] = {}
        self._known: dict[int, weakref.ref[CodeType]] = {}

    def install(self, is_forked: bool = False) -> None:
        """From now on in this thread and in those that start later."""
        # What is open already, such as the script that pip made for 'chimbuko', would give an EXIT alone, and
        # the stream's last event would not be that of the program's end. In a forked child it is the
        # program's own, and the writer leaves such an EXIT out.
        frame: FrameType | None = None if is_forked else sys._getframe()
        while frame is not None:
            exclude(frame.f_code)
            frame = frame.f_back
        threading.setprofile(self._begin_thread)
        sys.setprofile(self._hook())

    def remove(self) -> None:
        """End it in this thread at once, and in the others at their next call."""
        sys.setprofile(None)
        self.end()

    def end(self) -> None:
        """End it in each thread at its next call, when the recorder records no more."""
        threading.setprofile(None)
        # No thread finds a function here any more, so each asks, and is made to stop.
        self._codes.clear()

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(self._hook())

    def _hook(self) -> Hook:
        """The hook of the calling thread. What it uses is bound beforehand: it runs twice per call."""
        append = self._recorder.buffer().events.append
        clock = time.perf_counter_ns
        codes = self._codes
        decide = self._decide

        def record(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                try:
                    code = codes[id(frame.f_code)]
                except KeyError:
                    code = decide(frame)
                if code >= 0:
                    append(code)
                    append(clock())
            elif event == "return":
                now = clock()
                try:
                    code = codes[id(frame.f_code)]
                except KeyError:
                    code = decide(frame)
                if code >= 0:
                    append(code + 1)
                    append(now)

        return self._with_c_calls(record) if self._with_builtins else record

    def _with_c_calls(self, record: Hook) -> Hook:
        events = self._recorder.buffer().events
        codes, decide, timer_code = self._codes, self._decide, self._recorder.timer_code

        def record_all(frame: FrameType, event: str, argument: Any) -> None:
            if not event.startswith("c_"):
                record(frame, event, argument)
                return
            now = time.perf_counter_ns()
            key = id(frame.f_code)
            caller = codes[key] if key in codes else decide(frame)
            code = timer_code(argument.__qualname__)
            if caller >= 0 and code >= 0:
                events.extend((code + (event != "c_call"), now))

        return record_all

    def _decide(self, frame: FrameType) -> int:
        """Code of a function that is met for the first time."""
        if not self._recorder.is_recording:
            sys.setprofile(None)
            return SKIPPED
        function = frame.f_code
        wanted = self._is_wanted(function, frame.f_globals.get("__name__", ""))
        code = self._recorder.timer_code(function_name(function)) if wanted else SKIPPED
        key = id(function)
        # Programs make functions at run time: their ids are used again, and their number has no end.
        self._known[key] = weakref.ref(function, lambda _: self._forget(key))
        self._codes[key] = code
        return code

    def _forget(self, key: int) -> None:
        self._codes.pop(key, None)
        self._known.pop(key, None)

    def _is_wanted(self, function: CodeType, module: str) -> bool:
        if id(function) in never_recorded or function.co_name in _INLINED:
            return False
        if self._include and self._is_included(f"{module}.{function.co_qualname}"):
            return True
        file = function.co_filename
        if module == "__main__":
            return not file.startswith((_OURS, "<"))
        return not file.startswith(_OTHERS) and not any(folder in file for folder in _OTHERS_FOLDERS)

    def _is_included(self, name: str) -> bool:
        import fnmatch

        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._include)
