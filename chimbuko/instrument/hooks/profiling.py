"""Recording of calls through the interpreter's profiling hook, which each thread has, and its keeper, which
puts back those that are gone.
"""

from __future__ import annotations

import ctypes
import operator
import sys
import threading
import time
from collections import deque
from functools import partial
from time import perf_counter_ns

from chimbuko.instrument.hooks.codes import FOUND, NOT_RECORDED
from chimbuko.instrument.hooks.functions import SKIPPED, Functions, exclude_open
from chimbuko.instrument.hooks.threadhook import ThreadHook
from chimbuko.instrument.hooks.turns import code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.functions import Buffer, Recorder
    from chimbuko.instrument.hooks.threadhook import Hook, ThreadHook


# The profiling hook of another thread: Python 3.11 gives a thread only its own.


_PROFILE_FUNCTION, _PROFILE_OBJECT = 64, 80
"""Offsets in a PyThreadState of Python 3.11: the hook as a function of C, and the object that that calls."""


def _word(address: int) -> Any:
    return (ctypes.c_size_t * 1).from_address(address)


class ThreadState:
    """State of the calling thread, in which other threads find and set its hook.

    Each look is one call in C: between two of them the thread could end, and its state be gone.

    Parameters
    ----------
    owner
        Function written in C that returns None once the thread has ended.
    """

    def __init__(self, owner: Callable[[], object]) -> None:
        get_state = ctypes.pythonapi.PyThreadState_Get
        get_state.restype = ctypes.c_void_p
        self._address: int = get_state()
        self._owner = owner
        self._hook = _word(self._address + _PROFILE_OBJECT)

    def function(self) -> int:
        """Return the address of the hook's function; for the own thread only."""
        return int(_word(self._address + _PROFILE_FUNCTION)[0])

    def hook(self) -> int | None:
        """Return the id of the hook's object, 0 without a hook, None once the thread has ended."""
        found: list[int] = []
        _all_in_turn(self._owner, partial(found.extend, self._hook))
        return found[0] if found else None

    def put(self, function: int, hook: object) -> None:
        """Set a hook if the thread still runs and has none."""
        is_free = partial(operator.eq, memoryview(self._hook).cast("B"), bytes(ctypes.sizeof(self._hook)))
        put = _setter(("_PyEval_SetProfile", ctypes.pythonapi))
        _all_in_turn(self._owner, is_free, partial(put, self._address, function, hook))


def put_in_others(function: int, hook: object) -> None:
    """Set a hook in all other threads of this interpreter that have none.

    Without a look at the program's code in between: no thread can end meanwhile.
    """
    calls = ctypes.pythonapi
    for name in (
        "PyThreadState_Get",
        "PyInterpreterState_Get",
        "PyInterpreterState_ThreadHead",
        "PyThreadState_Next",
    ):
        getattr(calls, name).restype = ctypes.c_void_p
    own = calls.PyThreadState_Get()
    states = []
    state = calls.PyInterpreterState_ThreadHead(ctypes.c_void_p(calls.PyInterpreterState_Get()))
    while state:
        states.append(state)
        state = calls.PyThreadState_Next(ctypes.c_void_p(state))
    put = _setter(("_PyEval_SetProfile", calls))
    for state in states:
        if state != own and not _word(state + _PROFILE_OBJECT)[0]:
            put(state, function, hook)


def _setter(symbol: tuple[str, Any]) -> Callable[..., int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)(symbol)


def _all_in_turn(*steps: Callable[[], object]) -> None:
    """Call functions of C until one returns something false; no other thread runs meanwhile."""
    all(map(operator.call, steps))


def is_known() -> bool:
    """Whether the state of a thread lies in memory as is known here; a thread that has a hook may ask."""
    if sys.version_info[:2] != (3, 11) or ctypes.sizeof(ctypes.c_size_t) != 8:
        return False
    return ThreadState(object).hook() == id(sys.getprofile())


# Keeper of the profiling hooks of all threads, which puts back those that are gone, and notes how long.


MOST_AT_A_TIME = 64
"""Most threads that are looked at in one handover: a look takes some 3 µs, and there may be thousands."""


class Gaps:
    """Times in which a thread had no hook, so that its calls were not recorded.

    Parameters
    ----------
    start_ns
        Start of the recording.
    """

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._fresh: deque[tuple[int, int]] = deque()
        self._count = self._total_ns = 0
        self._first_ns: int | None = None
        self.open: dict[int, int] = {}
        """Beginnings of gaps that have not ended, by thread."""

    def note(self, since_ns: int, until_ns: int) -> None:
        """Note a gap; any thread may call this."""
        self._fresh.append((since_ns, until_ns))

    def text(self, now_ns: int) -> str:
        """Describe all gaps so far; empty without one."""
        while self._fresh:
            since_ns, until_ns = self._fresh.popleft()
            self._first_ns = min(since_ns, self._first_ns or since_ns)
            self._count, self._total_ns = self._count + 1, self._total_ns + until_ns - since_ns
        first_ns = min(
            [*self.open.values(), *([] if self._first_ns is None else [self._first_ns])], default=None
        )
        if first_ns is None:
            return ""
        count = self._count + len(self.open)
        total_ns = self._total_ns + sum(now_ns - since_ns for since_ns in self.open.values())
        times = "once" if count == 1 else f"{count:,} times"
        first_s = (first_ns - self._start_ns) / 1e9
        return (
            f"calls of {total_ns / 1e6:,.1f} ms, {times}, first at {first_s:.3f} s: an error or another "
            "profiler had taken the place of the tracer in Python"
        )


class _Kept:
    """Hook of a thread, with the state of that thread."""

    def __init__(self, hook: ThreadHook, buffer: Buffer) -> None:
        self.hook = hook
        self.resume = hook.resume
        self.thread = buffer.number
        # The main thread ends last. To look must run no Python.
        self.state = ThreadState(buffer.owner if buffer.number else object)
        self.seen_ns = perf_counter_ns()


class HookKeeper:
    """Keeper of the hooks of a process."""

    def __init__(self, gaps: Gaps, function: int) -> None:
        self._gaps = gaps
        self._function = function
        self._next = 0
        self._kept: dict[int, _Kept] = {}

    def add(self, hook: ThreadHook, buffer: Buffer) -> bool:
        """Look after the hook of the calling thread, too; return whether it is the thread's first one."""
        is_first = buffer.number not in self._kept
        self._kept[buffer.number] = _Kept(hook, buffer)
        return is_first

    def look(self) -> None:
        """Look at the hooks, those of some threads each time, and put back what is gone."""
        kept = list(self._kept.copy().values())
        first = self._next = self._next % max(1, len(kept))
        self._next += MOST_AT_A_TIME
        for one in kept[first : self._next]:
            found = one.state.hook()
            if found is not None:
                self._look_at(one, found)
            elif self._kept.get(one.thread) is one:
                del self._kept[one.thread]
                self._gaps.open.pop(one.thread, None)

    def _look_at(self, kept: _Kept, found: int) -> None:
        is_ours = found in (id(kept.hook.record), id(kept.resume))
        now = perf_counter_ns()
        if not is_ours and kept.thread not in self._gaps.open:
            self._gaps.open[kept.thread] = kept.seen_ns
            if found:
                # How long the calls take that are open now will never be known.
                kept.hook.events.extend((FOUND, now))
        if not found:
            kept.state.put(self._function, kept.resume)
        if is_ours or not found:
            kept.seen_ns = now
            since_ns = self._gaps.open.pop(kept.thread, None)
            if since_ns is not None:
                self._gaps.note(since_ns, now)


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
