"""Turns of coroutines, and of generators in Python 3.11, from a resumption to the next pause, and the names
of what is awaited meanwhile.

A coroutine is one call over all its turns, in the lane of the coroutine that awaits all others: a task of
asyncio, Trio or any other loop. While none of a task's coroutines runs, the one that is recorded is in a call
that says what it awaits. Generators have a call for each turn.

When an error is thrown into a coroutine that awaits others, hooks are told only about the innermost. The
others run on after it without a call, or pause with it without a return: their frames tell that they did.
"""

from __future__ import annotations

import opcode
import os
import sys
from time import perf_counter_ns

from chimbuko.core.pauses import Pause
from chimbuko.instrument.hooks.codes import SWITCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from chimbuko.instrument.hooks.functions import Recorder


HELD_NS = 20_000_000
"""Length from which a turn of a task is told in the waits of others, as for looks at threads."""
MOST_HELD = 8
"""Most such turns that are told in one wait, the newest."""
WITHIN_NS = 1_000
"""Least distance of a counter from the events around it: traces have times in µs."""
MOST_KNOWN = 10_000
"""Most names that are kept: programs may make functions at run time."""


class AwaitNames:
    """Names of what the coroutines of one thread await, told as they pause, the innermost first."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[int, int], tuple[int, object, object]] = {}
        self._awaiter: CodeType | None = None
        self._awaited: object = None

    def note(self, function: CodeType, is_recorded: bool, value: object) -> None:
        """Note that a function pauses, and passes on a value to the loop that will make it go on."""
        if self._awaiter is not None:
            return
        if is_recorded:
            self._awaiter = function
            self._awaited = self._awaited or _awaited(value)
        else:
            self._awaited = function

    @property
    def awaiter(self) -> CodeType | None:
        """Function of the innermost recorded coroutine that has just paused."""
        return self._awaiter

    def taken(self) -> int:
        """Return the code of the call in which the task waits, negative for none; forget what was noted."""
        awaiter, awaited = self._awaiter, self._awaited
        self._awaiter = self._awaited = None
        if awaiter is None:
            return -1
        key = id(awaiter), id(awaited)
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            # Without a place: it is none of a function's, and the awaited one's would be shown as a module.
            name = f"await {_name(awaited)} in {_in_module(awaiter)}"
            # With the objects, so that their ids are nobody else's.
            self._known[key] = self._recorder.timer_code(name), awaiter, awaited
        return self._known[key][0]


def _awaited(value: Any) -> object:
    """Return the function of a task of asyncio, or the type of what else a coroutine awaits by itself."""
    kind = type(value)
    if kind.__name__ == "Task" and kind.__module__ == "_asyncio":
        return getattr(value.get_coro(), "cr_code", kind)
    return kind


def _in_module(function: CodeType) -> str:
    module = os.path.basename(function.co_filename).removesuffix(".py")
    return f"{module}.{function.co_qualname}"


def _name(awaited: object) -> str:
    return str(getattr(awaited, "co_qualname", None) or getattr(awaited, "__name__", "something"))


GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200
"""Flags of the code of such functions (``inspect.CO_GENERATOR`` and so on)."""
_PAUSES = GENERATOR | COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR
_AWAITS = COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR
_IS_AWAITED = COROUTINE | ITERABLE_COROUTINE

_UNRECORDED = -2
"""Mark of a coroutine that is not recorded, but may await one that is, or be awaited by it."""
_SEND, _YIELD_VALUE = opcode.opmap["SEND"], opcode.opmap["YIELD_VALUE"]
"""Operations: a frame passes on what it is sent, and a frame pauses."""
_ALL_TOLD = sys.version_info >= (3, 12)
"""Whether Python tells all turns of generators."""

_ITEM = "async_generator_wrapped_value"
"""Name of the type in which an asynchronous generator gives an item; what it awaits has another one."""


def mark(code: int, function: CodeType) -> int:
    """Return what stands for the code of a function: below -1 for one whose turns must be followed.

    Following costs 1 us per turn, so a generator that passes nothing on, of which the hook is told all, is
    like a plain function; so is one that is not recorded, as few of them have errors thrown into them.
    """
    flags = function.co_flags
    if flags & _AWAITS or (
        code >= 0 and flags & GENERATOR and not _ALL_TOLD and _SEND in function.co_code[::2]
    ):
        return _UNRECORDED - 1 - code if code >= 0 else _UNRECORDED
    return code


def code_of(mark: int) -> int:
    """Return the code that a mark stands for; negative if the function is not recorded."""
    return mark if mark >= 0 else _UNRECORDED - 1 - mark


class Turns:
    """Turns in the thread that makes this.

    Parameters
    ----------
    recorder
        Recorder of the events.
    mark_of
        Function that returns the mark of the function of a frame.
    adopts
        Function that returns whether a call that was found open, and is not followed, counts as recorded.
    """

    def __init__(
        self,
        recorder: Recorder,
        mark_of: Callable[[FrameType], int],
        adopts: Callable[[FrameType], bool] | None = None,
    ) -> None:
        self._recorder = recorder
        buffer = recorder.buffer()
        self._counters = buffer.counters
        self._extend = buffer.events.extend
        self._pool = buffer.lanes
        self._mark_of = mark_of
        self._adopts = adopts
        self._running: dict[int, int] = {}
        """Places in their code at which frames began their turns, by the ids of those that run."""
        self._unseen: set[int] = set()
        """Frames whose turn began by an error in another one."""
        self._begun: set[int] = set()
        """Coroutines that have begun and not ended."""
        self._lanes: dict[int, int] = {}
        """Lanes of tasks, by the outermost frame of each."""
        self._tasks: list[tuple[int, int, int]] = []
        """Outermost frame, lane and begin of the turn of the tasks that run, each in a loop that the one
        before it runs.
        """
        self._awaits: dict[int, tuple[int, int]] = {}
        """Codes and begins of the calls in which the tasks wait, by lane."""
        self._held: list[tuple[str, int, int]] = []
        """Long turns: function, begin and end of each."""
        self._names = AwaitNames(recorder)

    def begin(self, frame: FrameType) -> None:
        """Record that a frame goes on, and before it those that await it and of which no hook is told."""
        key = id(frame)
        if key in self._running:
            # An error has reached it from one that it awaits.
            self._running[key] = frame.f_lasti
            return
        outer = frame.f_back
        unseen = []
        while outer is not None and outer.f_code.co_flags & _PAUSES and id(outer) not in self._running:
            unseen.append(outer)
            outer = outer.f_back
        is_task = outer is None or not outer.f_code.co_flags & _PAUSES
        for one in reversed(unseen):
            if self._enter(one, is_task):
                self._unseen.add(id(one))
                is_task = False
        self._enter(frame, is_task)

    def has_paused(self, frame: FrameType, value: object) -> bool:
        """Whether a frame that returns a value to a profiling hook has paused, and not ended."""
        # An error has no value, and where it was thrown the frame has not moved.
        place = frame.f_lasti
        has_moved = value is not None or place != self._running.get(id(frame))
        return has_moved and frame.f_code.co_code[place] == _YIELD_VALUE

    def end(self, frame: FrameType, has_paused: bool, value: object, now: int) -> None:
        """Record that a frame has paused or ended, and with it those that pause unknown to the hook."""
        if id(frame) not in self._running:
            return
        self._leave(frame, has_paused, value, now)
        outer = frame.f_back
        while has_paused and outer is not None and id(outer) in self._unseen:
            self._leave(outer, has_paused, value, now)
            outer = outer.f_back

    def found(self, frames: list[FrameType], now: int) -> list[tuple[int, list[int]]]:
        """Take over frames that were opened while no hook was set, the outermost first.

        Return the codes of recorded frames by lane: the thread's lane, and that of the task that runs.
        """
        self._unseen.clear()
        self._tasks.clear()
        self._running.clear()
        parts: list[tuple[int, list[int]]] = [(self._pool.current, [])]
        for frame in frames:
            mark = self._mark_of(frame)
            if mark <= _UNRECORDED:
                self._running[id(frame)] = frame.f_lasti
                if frame.f_code.co_flags & _IS_AWAITED:
                    self._begun.add(id(frame))
                    if not self._tasks:
                        self._enter_lane(id(frame), now)
                        parts.append((self._tasks[-1][1], []))
            code = code_of(mark)
            is_left_out = mark >= 0 and self._adopts is not None and not self._adopts(frame)
            if code >= 0 and not is_left_out:
                parts[-1][1].append(code)
        return parts

    def _enter(self, frame: FrameType, is_task: bool) -> bool:
        mark = self._mark_of(frame)
        if mark > _UNRECORDED:
            return False
        key, now = id(frame), perf_counter_ns()
        self._running[key] = frame.f_lasti
        code = code_of(mark)
        if frame.f_code.co_flags & _IS_AWAITED:
            if is_task:
                self._extend(self._enter_lane(key, now))
            if key in self._begun:
                return True
            self._begun.add(key)
        if code >= 0:
            self._extend((code, now))
        return True

    def _leave(self, frame: FrameType, has_paused: bool, value: object, now: int) -> None:
        key = id(frame)
        del self._running[key]
        self._unseen.discard(key)
        code = code_of(self._mark_of(frame))
        flags = frame.f_code.co_flags
        is_call = bool(flags & _IS_AWAITED)
        if has_paused:
            if flags & _AWAITS and self._tasks and type(value).__name__ != _ITEM:
                self._names.note(frame.f_code, code >= 0, value)
        elif is_call:
            self._begun.discard(key)
        if code >= 0 and not (is_call and has_paused):
            self._extend((code + 1, now))
        if self._tasks and self._tasks[-1][0] == key:
            self._leave_lane(frame.f_code, has_paused, now)

    def _enter_lane(self, key: int, now: int) -> tuple[int, ...]:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = self._pool.take()
        self._tasks.append((key, lane, now))
        awaited = self._awaits.pop(lane, None)
        if awaited is None:
            return SWITCHED - lane, now
        code, since = awaited
        is_held_up = self._held and self._held[-1][2] > since
        return SWITCHED - lane, now, code + 1, self._note_held_up(since, now) if is_held_up else now

    def _note_held_up(self, since: int, now: int) -> int:
        """Note who kept the loop from a task that waited since then; return a time behind these notes."""
        at = now + WITHIN_NS
        for name, begun, ended in self._held:
            number = self._recorder.counter_number(Pause.LOOP.counter(name))
            if ended > since and number >= 0:
                self._counters.extend((number, (ended - max(begun, since)) // 1000, at))
        while (then := perf_counter_ns()) < at + WITHIN_NS:
            pass
        return then

    def _leave_lane(self, function: CodeType, has_paused: bool, now: int) -> None:
        key, lane, begun = self._tasks.pop()
        if now - begun >= HELD_NS:
            held = self._names.awaiter or function
            self._held = [*self._held[1 - MOST_HELD :], (_in_module(held), begun, now)]
        code = self._names.taken()
        if not has_paused:
            del self._lanes[key]
            self._pool.free.append(lane)
        elif code >= 0:
            self._awaits[lane] = code, now
            self._extend((code, now))
        self._extend((SWITCHED - (self._tasks[-1][1] if self._tasks else self._pool.current), now))
