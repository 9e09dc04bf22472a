"""Records what the threads of this process do, and hands it to the process that writes the stream."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import chimbuko
from chimbuko.trace.tau import TimerFilter
from chimbuko.tracer.buffers import ThreadBuffer
from chimbuko.tracer.handover import (
    COMPLETE,
    ENTRY,
    ROOT_TIMER,
    TIME_COUNTER_NAME,
    Handover,
    Header,
    ThreadRows,
)
from chimbuko.tracer.surroundings import describe_process

HANDOVER_PERIOD_S = 0.1
"""What a killed program loses at most. Each costs about 0.1 ms."""
SKIPPED = -1
"""Code of a timer that is not recorded."""
LARGEST = 2**63 - 1


def clock_offset_ns() -> int:
    """What turns a time of the monotonic clock into one since the Unix epoch, in ns."""
    readings = []
    for _ in range(10):
        before, now, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        readings.append((after - before, now - (before + after) // 2))
    # The tightest pair: a process that lost its core between two readings would be off by ms.
    return min(readings)[1]


class Recorder:
    """One stream's recording, from its making to ``stop``.

    No thread of the program ever waits for it: names get their numbers and rows enter their
    buffers without locks.

    Parameters
    ----------
    program, rank
        Name the stream.
    select
        Timers and counters to leave out.
    """

    def __init__(self, program: str, rank: int, select: TimerFilter) -> None:
        self.is_recording = True
        self._rank = rank
        self._select = select
        self._local = threading.local()
        self._main = ThreadBuffer(0, threading.main_thread())
        self._buffers = [self._main]
        self._thread_numbers = itertools.count(1)
        self._free_numbers: deque[int] = deque()
        self._timers: dict[str, int] = {}
        self._timer_numbers = itertools.count(ROOT_TIMER + 1)
        self._counters: dict[str, int] = {TIME_COUNTER_NAME: 0}
        self._counter_numbers = itertools.count(1)
        self._handed_over = {"timers": 0, "counters": 0}
        start_ns = time.perf_counter_ns()
        offset_ns = clock_offset_ns()
        self._main.events.extend((ROOT_TIMER << 1 | ENTRY, start_ns))
        self._metadata = {(0, key): value for key, value in describe_process(time.time_ns() // 1000).items()}
        # Plain descriptors: a file object in a forked child could flush or close what is not the child's.
        self._to_writer, self._from_writer = _start_writer()
        # At once: a program may end before a thread gets its turn. A writer that is gone says why later.
        with suppress(BrokenPipeError):
            _send(self._to_writer, Header(program, rank, offset_ns))
            self._hand_over(is_last=False)
        self._stopping = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="chimbuko-tracer", daemon=True)
        self._feeder.start()

    def buffer(self) -> ThreadBuffer:
        """The calling thread's."""
        try:
            buffer: ThreadBuffer = self._local.buffer
        except AttributeError:
            buffer = self._local.buffer = self._new_buffer()
        return buffer

    def _new_buffer(self) -> ThreadBuffer:
        thread = threading.current_thread()
        if thread is threading.main_thread():
            return self._main
        try:
            number = self._free_numbers.popleft()
        except IndexError:
            number = next(self._thread_numbers)
        buffer = ThreadBuffer(number, thread)
        self._buffers.append(buffer)
        return buffer

    def timer_code(self, name: str) -> int:
        """Code of the ENTRY of ``name`` (its EXIT is one higher), or ``SKIPPED``."""
        code = self._timers.get(name)
        if code is None:
            allowed = self._select.allows_timer(name)
            code = self._timers.setdefault(name, next(self._timer_numbers) << 1 if allowed else SKIPPED)
        return code

    def counter_number(self, name: str) -> int:
        """Number of the counter ``name``, or ``SKIPPED``."""
        number = self._counters.get(name)
        if number is None:
            allowed = self._select.allows_counter(name)
            number = self._counters.setdefault(name, next(self._counter_numbers) if allowed else SKIPPED)
        return number

    def comm(self, event_type: int, partner: int, tag: int, size_bytes: int) -> None:
        """Record a message of the calling thread."""
        self.buffer().comms.extend((event_type, tag, partner, size_bytes, time.perf_counter_ns()))

    def count(self, name: str, value: float) -> None:
        """Record a counter's value, whole and not negative as in TAU's layout."""
        number = self.counter_number(name)
        if number != SKIPPED:
            whole = int(min(max(0, value), LARGEST))
            self.buffer().counters.extend((number, whole, time.perf_counter_ns()))

    def describe(self, key: str, value: str) -> None:
        """Record metadata of the calling thread."""
        self._metadata[self.buffer().number, key] = value

    def stop(self) -> None:
        """Hand over all that is left and wait until the stream is complete."""
        self.is_recording = False
        self._metadata[0, "Ending Timestamp"] = str(time.time_ns() // 1000)
        self._stopping.set()
        self._feeder.join()

    def abandon(self) -> None:
        """In a forked child: let go of the stream, which stays the parent's, and leave it as it is."""
        self.is_recording = False
        os.close(self._to_writer)
        os.close(self._from_writer)

    def _feed(self) -> None:
        try:
            while not self._stopping.wait(HANDOVER_PERIOD_S):
                self._hand_over(is_last=False)
            self._hand_over(is_last=True)
        except BrokenPipeError:
            # The writer has ended; it says why.
            self.is_recording = False
        os.close(self._to_writer)
        with open(self._from_writer, encoding="utf-8", errors="replace") as writer:
            last_word = writer.read().strip()
        if last_word != COMPLETE:
            reason = (
                last_word or "the process that writes its stream waited too long for a reader, or was killed"
            )
            print(f"chimbuko: rank {self._rank} is not traced to its end: {reason}", file=sys.stderr)

    def _hand_over(self, is_last: bool) -> None:
        # Read before rows are taken: what is recorded meanwhile belongs to the next step.
        complete_until_ns = time.perf_counter_ns()
        threads = self._take_rows()
        # Names after rows: a name has its number before the first row that uses it.
        handover = Handover(
            complete_until_ns=complete_until_ns,
            threads=threads,
            timers={code >> 1: name for name, code in self._new("timers", self._timers)},
            counters={number: name for name, number in self._new("counters", self._counters)},
            metadata=self._take_metadata(),
            is_last=is_last,
        )
        _send(self._to_writer, handover)

    def _take_rows(self) -> list[ThreadRows]:
        rows = []
        for buffer in self._buffers.copy():
            # Asked before taking: what a living thread adds later is taken next time.
            has_ended = not buffer.owner.is_alive()
            rows.append(buffer.take())
            if has_ended and buffer is not self._main:
                self._buffers.remove(buffer)
                self._free_numbers.append(buffer.number)
        return [taken for taken in rows if taken.events or taken.comms or taken.counters]

    def _new(self, kind: str, names: dict[str, int]) -> list[tuple[str, int]]:
        """Names that came since the last handover; dictionaries keep their order."""
        first, self._handed_over[kind] = self._handed_over[kind], len(names)
        fresh = list(names.copy().items())[first : self._handed_over[kind]]
        return [(name, number) for name, number in fresh if number != SKIPPED]

    def _take_metadata(self) -> dict[tuple[int, str], str]:
        taken = self._metadata.copy()
        for key, value in taken.items():
            if self._metadata.get(key) == value:
                self._metadata.pop(key, None)
        return taken


def _send(pipe: int, value: Header | Handover) -> None:
    unsent = memoryview(pickle.dumps(value))
    while unsent:
        unsent = unsent[os.write(pipe, unsent) :]


def _start_writer() -> tuple[int, int]:
    """The pipe into the writing process, and the one on which it says, before it ends, what went wrong."""
    package_home = str(Path(chimbuko.__file__).parent.parent)
    search_path = os.pathsep.join(filter(None, (package_home, os.environ.get("PYTHONPATH"))))
    # The writer is not this process's child: the program may wait for any child and must not meet a stranger.
    # -P: modules in the program's folder are not for the writer.
    starter = "import os; os.fork() and os._exit(0); from chimbuko.tracer.writer import main; main()"
    writer_input, to_writer = os.pipe()
    from_writer, writer_output = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-P", "-c", starter],
            stdin=writer_input,
            stdout=writer_output,
            env={**os.environ, "PYTHONPATH": search_path},
            check=True,
        )
    finally:
        os.close(writer_input)
        os.close(writer_output)
    return to_writer, from_writer
