"""Looks at threads whose calls go on without running, and at those that keep others from the interpreter."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType

import pytest

from chimbuko.instrument.hooks.stillthreads import StillThreads, waited_for_interpreter_ns
from chimbuko.instrument.tracer.eventrecorder import ThreadBuffer
from tests.patience import PATIENCE_S

MS = 1_000_000
lock = threading.RLock()
condition = threading.Condition()
over = threading.Event()
holds = threading.Event()


class Counters:
    """Recorder that knows the names of counters."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def counter_number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def hold(held: threading.RLock | threading.Condition) -> None:
    with held:
        holds.set()
        over.wait()


def wait_for_lock() -> None:
    with lock:
        pass


def acquire_lock() -> None:
    lock.acquire()
    lock.release()


def wait_for_condition() -> None:
    with condition:
        pass


def nap() -> None:
    while not over.is_set():
        time.sleep(float(str(0.3)))


def without_lines(function: FunctionType) -> FunctionType:
    """The same, but all its instructions are of no line, as are those that Python adds by itself."""
    code = function.__code__
    count = len(code.co_code) // 2
    # A byte with the kind "no location" for eight instructions at most.
    table = bytes(0xF8 | min(8, count - at) - 1 for at in range(0, count, 8))
    return FunctionType(code.replace(co_linetable=table), function.__globals__, function.__name__)


@contextmanager
def recorded(function: Callable[..., object], *arguments: object) -> Iterator[ThreadBuffer]:
    """The buffer of a thread that is in a call of a function."""
    found: list[ThreadBuffer] = []

    def begin() -> None:
        buffer = ThreadBuffer(1, object, int)
        buffer.events.extend((2, time.perf_counter_ns()))
        found.append(buffer)
        function(*arguments)

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    while not found:
        time.sleep(0.001)
    yield found[0]
    # One that waits for a job does so until the tests are over.
    over.set()


def seen(buffer: ThreadBuffer, wanted: str) -> dict[str, int]:
    """How long the thread stood for what, once that is the wanted thing."""
    counters, deadline = Counters(), time.monotonic() + PATIENCE_S
    looks = StillThreads(counters)
    while wanted not in counters.names:
        assert time.monotonic() < deadline, counters.names
        time.sleep(0.05)
        looks.look([buffer])
    values = buffer.counters.tolist()
    return {
        name: sum(values[at + 1] for at in range(0, len(values), 3) if values[at] == number)
        for name, number in counters.names.items()
    }


@pytest.fixture(autouse=True)
def begin() -> None:
    over.clear()
    holds.clear()


@pytest.mark.parametrize("wait", [wait_for_lock, acquire_lock])
def test_who_holds_the_lock_that_a_thread_waits_for_is_named(wait: Callable[[], None]) -> None:
    with recorded(hold, lock):
        holds.wait()
        with recorded(wait) as waiter:
            (length_us,) = seen(waiter, "Waited for a lock: lock, held by test_stillthreads.hold").values()
            assert length_us >= 20_000


def test_a_condition_is_the_lock_that_it_has() -> None:
    with recorded(hold, condition):
        holds.wait()
        with recorded(wait_for_condition) as waiter:
            assert seen(waiter, "Waited for a lock: condition, held by test_stillthreads.hold")


def test_calls_at_instructions_of_no_line_are_looked_at() -> None:
    with recorded(without_lines(hold), lock):
        holds.wait()
        with recorded(without_lines(wait_for_lock)) as waiter, recorded(wait_for_lock) as other:
            assert seen(waiter, "Stood still: test_stillthreads.wait_for_lock")
            assert seen(other, "Waited for a lock: lock")


@pytest.mark.parametrize(
    ("function", "place"), [(nap, "time.sleep"), (queue.Queue[None]().get, "queue.Queue.get")]
)
def test_a_thread_that_sleeps_says_where(function: Callable[[], None], place: str) -> None:
    with recorded(function) as sleeper:
        assert seen(sleeper, f"Stood still: {place}")


def test_of_a_thread_with_fast_calls_nothing_is_asked() -> None:
    counters, buffer = Counters(), ThreadBuffer(0, object, int)
    looks = StillThreads(counters)
    for _ in range(4):
        time.sleep(0.05)
        buffer.events.extend((2, time.perf_counter_ns()))
        looks.look([buffer])
    assert not counters.names and not buffer.counters


def test_of_a_thread_without_calls_nothing_is_told() -> None:
    """Such as those that a pool of processes has for itself: it would lie outside of all calls."""
    with recorded(nap) as buffer:
        buffer.events.clear()
        counters = Counters()
        looks = StillThreads(counters)
        for _ in range(3):
            time.sleep(0.05)
            looks.look([buffer])
        assert not counters.names and not buffer.counters


@pytest.mark.parametrize(
    ("open_ms", "elapsed_ms", "own_ms", "others_ms", "waited_ms"),
    [
        # Two that want it have it for half of the time each, also where they share the core with others.
        (50, 50, 25, 25, 25),
        (50, 50, 10, 10, 25),
        (20, 50, 25, 25, 10),
        # Nobody else ran.
        (50, 50, 25, 2, 0),
        # Both ran at once: one of them without the interpreter.
        (50, 50, 45, 45, 0),
        # It stands where it wants nothing; if our look is late, too, somebody has not given it away.
        (50, 50, 1, 45, 0),
        (200, 200, 2, 190, 198),
    ],
)
def test_who_keeps_a_thread_from_the_interpreter(
    open_ms: int, elapsed_ms: int, own_ms: int, others_ms: int, waited_ms: int
) -> None:
    found = waited_for_interpreter_ns(open_ms * MS, elapsed_ms * MS, own_ms * MS, others_ms * MS)
    assert found == waited_ms * MS
