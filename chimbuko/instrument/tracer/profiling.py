"""Recording of calls through the interpreter's profiling hook, which each thread has."""

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
    """Hook that records an ENTRY and an EXIT for each call, in each thread.

    Parameters
    ----------
    recorder
        Recorder of the events.
    include
        Shell patterns of functions to record that are not a part of the program, as ``module.function``.
    with_builtins
        Whether functions written in C are recorded, too, where recorded functions call them.
    """

    def __init__(self, recorder: Recorder, include: tuple[str, ...], with_builtins: bool) -> None:
        self._recorder = recorder
        self._functions = Functions(recorder, include)
        self._with_builtins = with_builtins

    def install(self, is_forked: bool = False) -> None:
        """Record calls from now on, in this thread and in those that start later."""
        # In a forked child open calls are the program's own, and the writer leaves their EXITs out.
        if not is_forked:
            exclude_open(sys._getframe())
        threading.setprofile(self._begin_thread)
        sys.setprofile(self._hook())

    def remove(self) -> None:
        """End the recording in this thread at once, and in each other thread at its next call."""
        sys.setprofile(None)
        self.end()

    def end(self) -> None:
        """End the recording in each thread at its next call, when the recorder records no more."""
        threading.setprofile(None)
        # Each thread finds its function unknown, asks about it, and is made to stop.
        self._functions.codes.clear()

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(self._hook())

    def _hook(self) -> Hook:
        """Return the hook of the calling thread. Its values are bound before, as it runs twice per call."""
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
        """Return the code of a function that is called for the first time."""
        if not self._recorder.is_recording:
            sys.setprofile(None)
            return SKIPPED
        return self._functions.decide(frame)
