"""Recording of calls through ``sys.monitoring``, which Python has from 3.12 on (PEP 669).

Python asks once about each place in a function that is not recorded, and never again. A profiler of the
program's own works beside it.
"""

from __future__ import annotations

import sys
import time

from chimbuko.instrument.hooks.functions import SKIPPED, Functions, exclude_open
from chimbuko.instrument.hooks.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.functions import Recorder

_monitoring: Any = getattr(sys, "monitoring", None)
_TOOL = "chimbuko"
_NUMBERS = (4, 3)
"""Tool ids that are reserved for no kind of tool."""


def free_number() -> int | None:
    """Return a tool id for monitoring; None if Python has no monitoring, or no id is free."""
    if _monitoring is None:
        return None
    return next((number for number in _NUMBERS if _monitoring.get_tool(number) is None), None)


class MonitoringHook:
    """Hook that records an ENTRY and an EXIT for each call, in all threads.

    Parameters
    ----------
    recorder
        Recorder of the events.
    include
        Shell patterns of functions to record that are not a part of the program, as ``module.function``.
    number
        Tool id from :func:`free_number`.
    budget
        Budget of what is recorded; without one all is.
    """

    def __init__(
        self,
        recorder: Recorder,
        include: tuple[str, ...],
        number: int,
        budget: CallBudget | None = None,
    ) -> None:
        self._recorder = recorder
        self._budget = budget
        self._functions = Functions(recorder, include, budget)
        self._number: int | None = number

    def install(self, is_forked: bool = False) -> None:
        """Record calls from now on, in all threads."""
        # In a forked child open calls are the program's own.
        if not is_forked:
            exclude_open(sys._getframe())
        if self._budget is not None:
            self._budget.begin(_monitoring.DISABLE)
        # What is not recorded, Python knows already in a forked child; but what the budget has left out, too.
        if not is_forked or self._budget is not None:
            _monitoring.restart_events()
        _monitoring.use_tool_id(self._number, _TOOL)
        callbacks = self._callbacks()
        for event, callback in callbacks.items():
            _monitoring.register_callback(self._number, event, callback)
        _monitoring.set_events(self._number, sum(callbacks))

    def look(self) -> None:
        """Let the budget decide anew; neither errors nor other profilers take callbacks out."""
        if self._budget is None or self._number is None:
            return
        for key, value in self._budget.look().items():
            self._recorder.describe_process(key, value)
        if self._budget.take_restart():
            _monitoring.restart_events()

    def remove(self) -> None:
        """End the recording in all threads."""
        number, self._number = self._number, None
        if number is not None:
            _monitoring.set_events(number, 0)
            for event in self._callbacks():
                _monitoring.register_callback(number, event, None)
            _monitoring.free_tool_id(number)
            if self._budget is not None:
                self._budget.end()
                for key, value in self._budget.described().items():
                    self._recorder.describe_process(key, value)

    def end(self) -> None:
        """End the recording in all threads; any thread may call this."""
        self.remove()

    def _callbacks(self) -> dict[int, Callable[..., Any]]:
        """Return the callbacks by event. Their values are bound beforehand, as two of them run per call."""
        if self._budget is not None:
            return self._asking_callbacks(self._budget)
        events, disable = _monitoring.events, _monitoring.DISABLE
        # For exceptions no callback may return DISABLE, by which the others say what is not recorded. All are
        # one call deep: at the limit of recursion a call has neither ENTRY nor EXIT.
        begin = self._beginning(disable)
        return {
            events.PY_START: begin,
            events.PY_RESUME: begin,
            events.PY_THROW: self._beginning(None),
            events.PY_RETURN: self._ending(disable, has_paused=False),
            events.PY_YIELD: self._ending(disable, has_paused=True),
            events.PY_UNWIND: self._ending(None, has_paused=False),
        }

    def _asking_callbacks(self, budget: CallBudget) -> dict[int, Callable[..., Any]]:
        """Return the callbacks by event of a library, which asks about what it does not know."""
        events, disable = _monitoring.events, _monitoring.DISABLE
        kinds = {
            events.PY_START: (True, False, disable),
            events.PY_RESUME: (True, False, disable),
            events.PY_THROW: (True, False, None),
            events.PY_RETURN: (False, False, disable),
            events.PY_YIELD: (False, True, disable),
            events.PY_UNWIND: (False, False, None),
        }
        callbacks: dict[int, Any] = {}
        for event, (is_begin, has_paused, may_disable) in kinds.items():
            asked = self._asked(budget, is_begin, has_paused, may_disable)
            callbacks[event] = budget.new_callback(is_begin, may_disable is not None, asked)
        return callbacks

    def _asked(
        self, budget: CallBudget, is_begin: bool, has_paused: bool, disable: object
    ) -> Callable[[CodeType, int, object], Any]:
        """Return what sees to functions that are new or followed, and to threads that are new."""

        def asked(function: CodeType, offset: int, value: object = None) -> Any:
            now = time.perf_counter_ns()
            mark = self._look_up(function)
            if mark == SKIPPED:
                return disable
            frame = _frame_of(function)
            if mark > SKIPPED:
                if not budget.is_thread_begun():
                    self._begin_thread(budget)
                budget.step(frame, is_begin)
            elif is_begin:
                self._turns().begin(frame)
            else:
                self._turns().end(frame, has_paused, value, now)
            return None

        return asked

    def _begin_thread(self, budget: CallBudget) -> None:
        of_thread = self._recorder.of_thread
        # Our own thread has no buffer, and takes in what it would record.
        is_ours = hasattr(of_thread, "extend") and not hasattr(of_thread, "buffer")
        if is_ours:
            budget.skip_thread()
        else:
            budget.begin_thread(self._recorder)

    def _beginning(self, disable: object) -> Callable[..., Any]:
        of_thread, buffer = self._recorder.of_thread, self._recorder.buffer
        codes, look_up = self._functions.codes, self._look_up
        clock = time.perf_counter_ns

        def begin(function: CodeType, offset: int, error: object = None) -> Any:
            try:
                code = codes[id(function)]
            except KeyError:
                code = look_up(function)
                if code < SKIPPED:
                    self._turns().begin(_frame_of(function))
                    return None
            if code < 0:
                return disable
            try:
                extend = of_thread.extend
            except AttributeError:
                extend = buffer().events.extend
            extend((code, clock()))

        return begin

    def _ending(self, disable: object, has_paused: bool) -> Callable[[CodeType, int, object], Any]:
        of_thread, buffer = self._recorder.of_thread, self._recorder.buffer
        codes, look_up = self._functions.codes, self._look_up
        clock = time.perf_counter_ns

        def end(function: CodeType, offset: int, value: object) -> Any:
            now = clock()
            try:
                code = codes[id(function)]
            except KeyError:
                code = look_up(function)
                if code < SKIPPED:
                    self._turns().end(_frame_of(function), has_paused, value, now)
                    return None
            if code < 0:
                return disable
            try:
                extend = of_thread.extend
            except AttributeError:
                extend = buffer().events.extend
            extend((code + 1, now))

        return end

    def _turns(self) -> Turns:
        """Return the turns of coroutines in the calling thread."""
        of_thread = self._recorder.of_thread
        try:
            turns: Turns = of_thread.turns
        except AttributeError:
            turns = of_thread.turns = Turns(self._recorder, self._mark_of)
        return turns

    def _mark_of(self, frame: FrameType) -> int:
        mark = self._functions.mark_of(frame.f_code)
        return self._functions.decide(frame) if mark is None else mark

    def _look_up(self, function: CodeType) -> int:
        """Return the mark of a function that is called for the first time, or is followed."""
        mark = self._functions.mark_of(function)
        if mark is not None:
            return mark
        return self._functions.decide(_frame_of(function)) if self._recorder.is_recording else SKIPPED


def _frame_of(function: CodeType) -> FrameType:
    """Return the frame of a function that has begun, goes on or ends, from which a callback is called."""
    frame = sys._getframe()
    while frame.f_code is not function and frame.f_back is not None:
        frame = frame.f_back
    return frame
