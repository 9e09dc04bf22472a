"""Trace a Python program in TAU's layout, one stream per process.

May import capture.trace, instrument.hooks, runtime and runtime.process.

``chimbuko trace script.py`` records every function of a program without a change to it. In the
program itself this module names what is worth seeing besides: regions, messages, counters.
Without an active tracer all of it does nothing, at next to no cost.

>>> from chimbuko import tracer
>>> @tracer.traced
... def solve(n):
...     with tracer.region("assemble"):
...         tracer.counter("unknowns", n)
"""

from __future__ import annotations

import functools
from time import perf_counter_ns
from types import CodeType
from typing import ParamSpec, TypeVar

from chimbuko.instrument.hooks.functions import SKIPPED, exclude
from chimbuko.instrument.tracer import session
from chimbuko.instrument.tracer.chunks import RECEIVE, SEND
from chimbuko.instrument.tracer.eventrecorder import Recorder
from chimbuko.instrument.tracer.pausing import by_turns, pauses
from chimbuko.instrument.tracer.session import is_active, may_record, start, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

__all__ = [
    "counter",
    "is_active",
    "may_record",
    "metadata",
    "receive",
    "region",
    "send",
    "start",
    "stop",
    "traced",
    "untraced",
]

P = ParamSpec("P")
R = TypeVar("R")


class region:
    """Context manager that records its block as a call of ``name``.

    Blocks of one thread have to nest, so a block must not contain an ``await``.
    """

    __slots__ = ("_code", "_name", "_recorder")

    def __init__(self, name: str) -> None:
        self._name = name
        self._recorder: Recorder | None = None

    def __enter__(self) -> Self:
        recorder = session.active
        if recorder is not None and recorder.is_recording:
            self._recorder = recorder
            self._code = recorder.timer_code(self._name)
            if self._code != SKIPPED:
                recorder.buffer().events.extend((self._code, perf_counter_ns()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = perf_counter_ns()
        recorder, self._recorder = self._recorder, None
        if recorder is not None and recorder.is_recording and self._code != SKIPPED:
            recorder.buffer().events.extend((self._code + 1, now))


def traced(function: Callable[P, R]) -> Callable[P, R]:
    """Record each call of ``function``.

    Calls of generators and ``async`` functions do not nest, so each of their turns is recorded as a call,
    from a resumption to the next pause.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    exclude(code)
    if pauses(function):
        return by_turns(function, lambda: region(_name_of(function)))

    known: tuple[Recorder | None, int] = None, SKIPPED

    @functools.wraps(function)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
        # The same as a region, which would take three times as long.
        nonlocal known
        recorder = session.active
        if recorder is None or not recorder.is_recording:
            return function(*args, **kwargs)
        of_recorder, code = known
        if of_recorder is not recorder:
            code = recorder.timer_code(_name_of(function))
            known = recorder, code
        if code == SKIPPED:
            return function(*args, **kwargs)
        try:
            extend = recorder.of_thread.extend
        except AttributeError:
            extend = recorder.buffer().events.extend
        extend((code, perf_counter_ns()))
        try:
            return function(*args, **kwargs)
        finally:
            now = perf_counter_ns()
            if recorder.is_recording:
                extend((code + 1, now))

    return recorded


def _name_of(function: Callable[..., object]) -> str:
    recorder = session.active
    code: CodeType | None = getattr(function, "__code__", None)
    if recorder is None or code is None:
        return getattr(function, "__qualname__", repr(function))
    return recorder.files.function_name(code, getattr(function, "__globals__", {}))


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """Keep ``function`` out of the trace; its time counts as that of its caller."""
    exclude(getattr(function, "__code__", None))
    return function


def send(partner: int, tag: int, size_bytes: int) -> None:
    """Record that a message of ``size_bytes`` left for the rank ``partner``."""
    recorder = session.active
    if recorder is not None:
        recorder.comm(SEND, partner, tag, size_bytes)


def receive(partner: int, tag: int, size_bytes: int) -> None:
    """Record that a message of ``size_bytes`` came from the rank ``partner``."""
    recorder = session.active
    if recorder is not None:
        recorder.comm(RECEIVE, partner, tag, size_bytes)


def counter(name: str, value: float) -> None:
    """Record the value of a counter; TAU's layout keeps its whole part, and 0 for a negative value."""
    recorder = session.active
    if recorder is not None:
        recorder.count(name, value)


def metadata(key: str, value: str) -> None:
    """Record a property of the calling thread."""
    recorder = session.active
    if recorder is not None:
        recorder.describe(key, value)


session.start_from_environment()
