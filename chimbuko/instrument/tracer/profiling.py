"""Records calls of functions through the interpreter's profiling hook, which each thread has."""

from __future__ import annotations

import sys
import threading
import time

from chimbuko.instrument.tracer.functions import SKIPPED, Functions, exclude_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from chimbuko.instrument.tracer.functions import Recorder

    Hook = Callable[[FrameType, str, Any], None]


class ProfilingHook:
    """Writes an ENTRY and an EXIT for each call, in each thread.

    Parameters
    ----------
    recorder
        Where the events go.
    include
        Shell patterns of functions that are no part of the program, as ``module.function``.
    with_builtins
        Also record functions written in C that the recorded ones call.
    """

    def __init__(self, recorder: Recorder, include: tuple[str, ...], with_builtins: bool) -> None:
        self._recorder = recorder
        self._functions = Functions(recorder, include)
        self._with_builtins = with_builtins

    def install(self, is_forked: bool = False) -> None:
        """From now on in this thread and in those that start later."""
        # In a forked child what is open is the program's own, and the writer leaves such an EXIT out.
        if not is_forked:
            exclude_open(sys._getframe())
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
        self._functions.codes.clear()

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(self._hook())

    def _hook(self) -> Hook:
        """The hook of the calling thread. What it uses is bound beforehand: it runs twice per call."""
        extend = self._recorder.buffer().events.extend
        clock = time.perf_counter_ns
        codes = self._functions.codes
        decide = self._decide

        def record(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                try:
                    code = codes[id(frame.f_code)]
                except KeyError:
                    code = decide(frame)
                if code >= 0:
                    extend((code, clock()))
            elif event == "return":
                now = clock()
                try:
                    code = codes[id(frame.f_code)]
                except KeyError:
                    code = decide(frame)
                if code >= 0:
                    extend((code + 1, now))

        return self._with_c_calls(record) if self._with_builtins else record

    def _with_c_calls(self, record: Hook) -> Hook:
        events = self._recorder.buffer().events
        codes, decide, timer_code = self._functions.codes, self._decide, self._recorder.timer_code

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
        return self._functions.decide(frame)
