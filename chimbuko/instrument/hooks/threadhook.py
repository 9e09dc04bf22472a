"""Profiling hook of one thread, which Python takes out when an error happens in it."""

from __future__ import annotations

import _thread
import sys
from time import perf_counter_ns

from chimbuko.instrument.hooks.codes import FOUND, SWITCHED
from chimbuko.instrument.hooks.functions import SKIPPED
from chimbuko.instrument.hooks.turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.functions import Functions, Recorder

    Hook = Callable[[FrameType, str, Any], None]

_ROOM = 20
"""Calls that must fit between a hook and Python's limit of recursion, or it would fail again at once."""


class _Remains:
    """Object in the frame of a hook that has failed: it is gone once the program is done with the error."""

    __slots__ = ("_thread_hook", "has_failed")

    def __init__(self, thread_hook: ThreadHook) -> None:
        self._thread_hook = thread_hook
        self.has_failed = False

    def __del__(self) -> None:
        if self.has_failed:
            self._thread_hook.recover()


class ThreadHook:
    """Hook of the thread that makes it.

    Parameters
    ----------
    recorder
        Recorder of the events.
    functions
        Functions that have been called.
    decide
        Function that returns the mark of a function that is called for the first time.
    note_gap
        Function that is told from when to when a thread had no hook.
    budget
        Budget that records calls, and only asks the hook about functions that are new or followed.
    """

    def __init__(
        self,
        recorder: Recorder,
        functions: Functions,
        decide: Callable[[FrameType], int],
        note_gap: Callable[[int, int], None],
        budget: CallBudget | None = None,
    ) -> None:
        self._recorder = recorder
        self._functions = functions
        self._decide = decide
        self._note_gap = note_gap
        self._ident = _thread.get_ident()
        self.events = recorder.buffer().events
        self._turns = Turns(recorder, self.mark_of, None if budget is None else budget.adopts)
        self._remains: list[_Remains | None] = [_Remains(self)]
        self._set_hook: Callable[[Hook], None] = sys.setprofile
        if budget is None:
            self.record = self._made()
        else:
            budget.begin_thread(recorder)
            self._set_hook = budget.set_hook
            self.record = self._asked(budget.step)

    def _made(self) -> Hook:
        """Return the hook. Its values are bound before, as it runs twice per call."""
        extend = self.events.extend
        clock = perf_counter_ns
        codes, look_up, remains = self._functions.codes, self._look_up, self._remains

        def record(frame: FrameType, event: str, argument: Any) -> None:
            try:
                if event == "call":
                    try:
                        code = codes[id(frame.f_code)]
                    except KeyError:
                        code = look_up(frame, event, argument, 0)
                    if code >= 0:
                        extend((code, clock()))
                elif event == "return":
                    now = clock()
                    try:
                        code = codes[id(frame.f_code)]
                    except KeyError:
                        code = look_up(frame, event, argument, now)
                    if code >= 0:
                        extend((code + 1, now))
            except BaseException:
                # The limit of recursion, or what the handler of a signal raises: Python takes the hook out.
                # At the limit nothing can be called. The error's traceback keeps this frame and its values.
                remaining = remains[0]
                if remaining is not None:
                    remaining.has_failed = True
                    remains[0] = None
                raise

        return record

    def _asked(self, step: Callable[[FrameType, bool], bool]) -> Hook:
        """Return the hook that is asked about functions that are new or followed, and stands any event."""

        def record(frame: FrameType, event: str, argument: Any) -> None:
            try:
                is_begin = event == "call"
                if not (is_begin or event == "return") or step(frame, is_begin):
                    return
                now = perf_counter_ns()
                if self._look_up(frame, event, argument, now) >= 0:
                    step(frame, is_begin)
            except BaseException:
                remaining = self._remains[0]
                if remaining is not None:
                    remaining.has_failed = True
                    self._remains[0] = None
                raise

        return record

    def _look_up(self, frame: FrameType, event: str, argument: Any, now: int) -> int:
        """Return the code of a function that is new, or see to the turn of one that is followed."""
        mark = self.mark_of(frame)
        if mark >= SKIPPED:
            return mark
        if event == "call":
            self._turns.begin(frame)
        else:
            self._turns.end(frame, self._turns.has_paused(frame, argument), argument, now)
        return SKIPPED

    def recover(self) -> None:
        """Set the hook again in its thread, if nobody else has taken its place."""
        if (
            not self._recorder.is_recording
            or _thread.get_ident() != self._ident
            or sys.getprofile() is not None
        ):
            return
        try:
            _take_room(_ROOM)
        except RecursionError:
            return
        since = self.events[-1] if self.events else perf_counter_ns()
        # That of our caller, __del__, has the frame of the program behind it.
        self._begin_again(sys._getframe(1).f_back)
        self._note_gap(since, self.events[-1])
        self._set_hook(self.record)

    def install(self) -> None:
        """Set the hook in the calling thread, whose calls until now are none of the program's."""
        self._set_hook(self.record)

    def start(self, frame: FrameType, event: str, argument: Any, is_first: bool) -> None:
        """Act as the hook that the thread begins with, perhaps in the middle of calls."""
        self._begin_again(frame.f_back if event == "call" else frame, is_first)
        self._set_hook(self.record)
        self.record(frame, event, argument)

    def resume(self, frame: FrameType, event: str, argument: Any) -> None:
        """Act as a hook that another thread has put in the place of the one that is gone."""
        self.start(frame, event, argument, is_first=False)

    def _begin_again(self, frame: FrameType | None, is_first: bool = False) -> None:
        """Record which calls are open, of those that began before the hook was gone and of all others."""
        frames = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        self._remains[0] = _Remains(self)
        now = perf_counter_ns()
        rows = []
        found = self._turns.found(frames[::-1], now)
        if is_first and not any(codes for _, codes in found):
            return
        for lane, codes in found:
            rows += [SWITCHED - lane, now, FOUND - len(codes), now]
            for code in codes:
                rows += code, now
        self.events.extend(rows)

    def mark_of(self, frame: FrameType) -> int:
        """Return the mark of the function of a frame."""
        mark = self._functions.mark_of(frame.f_code)
        return self._decide(frame) if mark is None else mark


def _take_room(calls: int) -> None:
    if calls:
        _take_room(calls - 1)
