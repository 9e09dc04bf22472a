"""Iterations of a training, as calls from the request for a batch to the end of the optimiser's step.

Both have to come from one function. Where batches do not lead to a step, as in an evaluation, nothing is
recorded; a further batch before the step is part of the iteration.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from chimbuko.instrument.hooks.functions import SKIPPED, is_of_others
from chimbuko.instrument.tracer.eventrecorder import Recorder

NAME = "training step"


class Iterations:
    """Iterations in the main thread of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._code = recorder.timer_code(NAME)
        self._leading: set[tuple[CodeType, int]] = set()
        """Places that ask for batches which lead to a step."""
        self._asked: tuple[tuple[CodeType, int], int] | None = None
        """Where the batch was asked for: place, and depth of its function."""
        self._is_open = False

    def watch(self, loader: Any, optimiser: Any) -> None:
        """Watch the classes of the iterators of batches, and of optimisers."""
        following, hooked = loader.__next__, optimiser.profile_hook_step

        @wraps(following)
        def next_and_note(batches: Any) -> Any:
            self.ask(sys._getframe(1))
            try:
                return following(batches)
            except StopIteration:
                self.end()
                raise

        def hook(step: Callable[..., Any]) -> Callable[..., Any]:
            stepping = hooked(step)

            @wraps(stepping)
            def step_and_note(*args: Any, **options: Any) -> Any:
                result = stepping(*args, **options)
                self.step(sys._getframe(1))
                return result

            return step_and_note

        loader.__next__ = next_and_note
        optimiser.profile_hook_step = staticmethod(hook)

    def ask(self, frame: FrameType) -> None:
        """Note that a function asks for a batch."""
        if not self._is_recording():
            return
        function, depth = _function_of(frame)
        if self._is_open and self._asked is not None:
            (code, _), before = self._asked
            if code is function.f_code and before == depth:
                return
        place = function.f_code, function.f_lasti
        self._asked = place, depth
        self._is_open = place in self._leading
        if self._is_open:
            self._put(self._code)

    def step(self, frame: FrameType) -> None:
        """Note that an optimiser's step, which a function has called, has ended."""
        if not self._is_recording() or self._asked is None:
            return
        function, depth = _function_of(frame)
        place, before = self._asked
        if place[0] is function.f_code and before == depth:
            self._leading.add(place)
            self.end()
            self._asked = None

    def end(self) -> None:
        """End the iteration that is open, if any."""
        if self._is_open and self._is_recording():
            self._is_open = False
            self._put(self._code + 1)

    def _put(self, code: int) -> None:
        if self._code != SKIPPED:
            self._recorder.buffer().events.extend((code, perf_counter_ns()))

    def _is_recording(self) -> bool:
        return self._recorder.is_recording and _thread.get_ident() == threading.main_thread().ident


def _function_of(frame: FrameType) -> tuple[FrameType, int]:
    """Return the innermost function of the program on a stack, and its depth."""
    found, depth, at = frame, 0, frame.f_back
    is_found = not is_of_others(frame.f_code)
    while at is not None:
        depth += 1
        if not is_found and not is_of_others(at.f_code):
            found, depth, is_found = at, 0, True
        at = at.f_back
    return found, depth
