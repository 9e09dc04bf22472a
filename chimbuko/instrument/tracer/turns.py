"""Turns of generators and coroutines, from a resumption to the next pause, as Python 3.11's hook tells them.

When an error is thrown into a coroutine that awaits others, the hook is told only about the innermost. The
others run on after it without a call, or pause with it without a return: their frames tell that they did.
"""

from __future__ import annotations

from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200
"""Flags of the code of such functions (``inspect.CO_GENERATOR`` and so on)."""
_PAUSES = GENERATOR | COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR
_AWAITS = _PAUSES & ~GENERATOR

_UNRECORDED = -2
"""Mark of a coroutine that is not recorded, but may await one that is, or be awaited by it."""
_SEND, _YIELD_VALUE = 123, 86
"""Operations of Python 3.11: that by which a frame passes on what it is sent, and that at which one pauses."""


def mark(code: int, function: CodeType) -> int:
    """Return what stands for the code of a function: below -1 for one whose turns must be followed.

    Following costs 1 us per turn, so a generator that passes nothing on, of which the hook is told all, is like
    a plain function; so is one that is not recorded, as few of them have errors thrown into them.
    """
    flags = function.co_flags
    if not flags & _PAUSES or not (flags & _AWAITS or (code >= 0 and _SEND in function.co_code[::2])):
        return code
    return _UNRECORDED - 1 - code if code >= 0 else _UNRECORDED


def code_of(mark: int) -> int:
    """Return the code that a mark stands for; negative if the function is not recorded."""
    return mark if mark >= 0 else _UNRECORDED - 1 - mark


class Turns:
    """Turns in one thread.

    Parameters
    ----------
    extend
        Function that adds events to the buffer of the thread.
    mark_of
        Function that returns the mark of the function of a frame.
    """

    def __init__(
        self, extend: Callable[[tuple[int, ...]], None], mark_of: Callable[[FrameType], int]
    ) -> None:
        self._extend = extend
        self._mark_of = mark_of
        self._entered: set[int] = set()
        self._thrown: set[int] = set()

    def begin(self, frame: FrameType) -> None:
        """Record that a frame goes on, and before it those that await it and of which the hook is not told."""
        if id(frame) in self._entered:
            # An error has reached it from one that it awaits.
            return
        outer = frame.f_back
        unseen = []
        while outer is not None and outer.f_code.co_flags & _PAUSES and id(outer) not in self._entered:
            unseen.append(outer)
            outer = outer.f_back
        for one in reversed(unseen):
            if self._enter(one):
                self._thrown.add(id(one))
        self._enter(frame)

    def end(self, frame: FrameType, value: object, now: int) -> None:
        """Record that a frame has paused or ended, and with it those that pause with it, unknown to the hook."""
        if not self._leave(frame, now) or not self._thrown or value is None:
            # An error has no value. Few pause without one, and they are left when they go on.
            return
        if frame.f_code.co_code[frame.f_lasti] != _YIELD_VALUE:
            return
        outer = frame.f_back
        while outer is not None and id(outer) in self._thrown:
            self._leave(outer, now)
            outer = outer.f_back

    def find(self, frames: list[FrameType]) -> None:
        """Take over frames that are open after a time without a hook."""
        self._thrown.clear()
        self._entered = {id(frame) for frame in frames if self._mark_of(frame) <= _UNRECORDED}

    def _enter(self, frame: FrameType) -> bool:
        mark = self._mark_of(frame)
        if mark > _UNRECORDED:
            return False
        self._entered.add(id(frame))
        code = code_of(mark)
        if code >= 0:
            self._extend((code, perf_counter_ns()))
        return True

    def _leave(self, frame: FrameType, now: int) -> bool:
        key = id(frame)
        if key not in self._entered:
            return False
        self._entered.discard(key)
        self._thrown.discard(key)
        code = code_of(self._mark_of(frame))
        if code >= 0:
            self._extend((code + 1, now))
        return True
