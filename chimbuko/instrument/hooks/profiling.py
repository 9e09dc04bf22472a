"""Recording of calls through the interpreter's profiling hook, which each thread has."""

from __future__ import annotations

import sys
import threading
import time

from chimbuko.instrument.hooks.codes import NOT_RECORDED
from chimbuko.instrument.hooks.functions import SKIPPED, Functions, exclude_open
from chimbuko.instrument.hooks.hookkeeper import Gaps, HookKeeper
from chimbuko.instrument.hooks.threadhook import ThreadHook
from chimbuko.instrument.hooks.threadstate import ThreadState, is_known, put_in_others
from chimbuko.instrument.hooks.turns import code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.functions import Recorder
    from chimbuko.instrument.hooks.threadhook import Hook


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
    budget
        Budget of what is recorded; without one all is, and never with functions written in C.
    """

    def __init__(
        self,
        recorder: Recorder,
        include: tuple[str, ...],
        with_builtins: bool,
        budget: CallBudget | None = None,
    ) -> None:
        self._recorder = recorder
        self._budget = budget
        self._functions = Functions(recorder, include, budget)
        self._with_builtins = with_builtins
        self._gaps = Gaps(time.perf_counter_ns())
        self._keeper: HookKeeper | None = None

    def install(self, is_forked: bool = False) -> None:
        """Record calls from now on, in this thread and in those that start later."""
        # In a forked child open calls are the program's own, and the writer leaves their EXITs out.
        if not is_forked:
            exclude_open(sys._getframe())
        if self._budget is not None:
            self._budget.begin()
        threading.setprofile(self._begin_thread)
        hook = self._hook()
        # As the keeper puts hooks back, which have to be asked first.
        sys.setprofile(hook.record)
        if is_known():
            self._keeper = HookKeeper(self._gaps, ThreadState(object).function())
            self._keeper.add(hook, self._recorder.buffer())
            if self._recorder.is_attached:
                put_in_others(ThreadState(object).function(), self._begin_thread)
        hook.install()

    def look(self) -> None:
        """Put back the hooks that are gone, and describe how long they were; our own thread calls this."""
        if self._keeper is not None and self._recorder.is_recording:
            self._keeper.look()
        if threading.getprofile() is None and self._recorder.is_recording:
            threading.setprofile(self._begin_thread)
        if text := self._gaps.text(time.perf_counter_ns()):
            self._recorder.describe_process(NOT_RECORDED, text)
        if self._budget is not None:
            for key, value in self._budget.look().items():
                self._recorder.describe_process(key, value)

    def remove(self) -> None:
        """End the recording in this thread at once, and in each other thread at its next call."""
        sys.setprofile(None)
        self.end()

    def end(self) -> None:
        """End the recording in each thread at its next call, when the recorder records no more."""
        threading.setprofile(None)
        # Each thread finds its function unknown, asks about it, and is made to stop.
        self._functions.codes.clear()
        self._functions.followed.clear()
        if self._budget is not None:
            self._budget.end()
            for key, value in self._budget.described().items():
                self._recorder.describe_process(key, value)

    def _begin_thread(self, frame: FrameType, event: str, argument: Any) -> None:
        hook = self._hook()
        is_first = True
        if self._keeper is not None:
            is_first = self._keeper.add(hook, self._recorder.buffer())
        # gevent sets the hook anew for each task of a thread, in the middle of calls.
        hook.start(frame, event, argument, is_first)

    def _hook(self) -> ThreadHook:
        """Return the hook of the calling thread."""
        hook = ThreadHook(self._recorder, self._functions, self._decide, self._gaps.note, self._budget)
        if self._with_builtins:
            hook.record = self._with_c_calls(hook)
        return hook

    def _with_c_calls(self, hook: ThreadHook) -> Hook:
        record, events = hook.record, hook.events
        mark_of, timer_code = hook.mark_of, self._recorder.timer_code

        def record_all(frame: FrameType, event: str, argument: Any) -> None:
            if not event.startswith("c_"):
                record(frame, event, argument)
                return
            now = time.perf_counter_ns()
            caller = code_of(mark_of(frame))
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
