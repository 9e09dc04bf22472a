"""Recording of what the threads of this process do, handed over to the process that writes the stream."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # The module signal may be half imported when this begins.
import _thread
import itertools
import os
import struct
import sys
import threading
import time
import weakref
from array import array
from collections import deque
from contextlib import suppress

from chimbuko.instrument.hooks.functions import SKIPPED, SourceFiles, exclude
from chimbuko.instrument.hooks.greenlets import LanePool, watch_greenlets
from chimbuko.instrument.hooks.stillthreads import LOADING, LOOK_PERIOD_S, StillThreads
from chimbuko.instrument.tracer.children import StartedPrograms, kill_those_left
from chimbuko.instrument.tracer.chunks import (
    COMPLETE,
    ENTRY,
    ROOT_TIMER,
    THREAD_NAME,
    TIME_COUNTER_NAME,
    Handover,
    Header,
    ThreadRows,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from chimbuko.capture.trace.tausettings import TimerFilter
    from chimbuko.instrument.tracer.connection import Connection
    from chimbuko.instrument.tracer.family import Family


# Buffer of the rows of one thread: that thread adds them, and another takes them, without a lock.
#
# Rows are int64 numbers, one after the other. Adding a row, and taking rows, are single operations under
# Python's own lock: a signal's handler, or an exception that it raises, comes before or after them.


class ThreadBuffer:
    """Rows that one thread has recorded and nobody has taken yet.

    Parameters
    ----------
    number
        Number of the thread.
    owner
        Function that returns None once the thread has ended.
    new_lane
        Function that returns the number of a further stack of the thread.
    """

    def __init__(self, number: int, owner: Callable[[], object], new_lane: Callable[[], int]) -> None:
        self.number = number
        self.owner = owner
        self.ident = _thread.get_ident()
        self.native_id = _thread.get_native_id()
        self.name = "MainThread"
        """Name that the program has given to the thread; that of the main thread says nothing."""
        self.lanes = LanePool(number, new_lane)
        self.events: list[int] = []
        """Code and time of each event, in a list: adding a row takes a fifth of the time of an array."""
        self.comms = array("q")
        self.counters = array("q")
        self.work: list[int] = []
        """Rows of counters, as ``counters`` has them, that a library in C adds."""
        self._packed: list[bytes] = []
        self._packed_work: list[bytes] = []
        self._moved = 0
        """Number of values that have left ``events``."""
        self.is_described = False
        """Whether the trace says which thread this is."""

    @property
    def recorded(self) -> int:
        """Number of values of events that were ever recorded."""
        return self._moved + len(self.events)

    def pack(self) -> None:
        """Store lists as arrays, which take a third of their memory."""
        self._moved += _pack(self.events, self._packed)
        _pack(self.work, self._packed_work)

    def take(self) -> ThreadRows:
        """Take all rows out of the buffer."""
        self.pack()
        packed, self._packed = self._packed, []
        work, self._packed_work = self._packed_work, []
        return ThreadRows(
            self.number,
            b"".join(packed),
            _take(self.comms),
            b"".join((_take(self.counters), *work)),
            native_id=self.native_id,
        )


def _pack(rows: list[int], packed: list[bytes]) -> int:
    """Move the values of a list into an array; return how many there were."""
    # The thread may add more meanwhile, but only at the end.
    taken = rows[:]
    del rows[: len(taken)]
    if taken:
        packed.append(struct.pack(f"={len(taken)}q", *taken))
    return len(taken)


def _take(rows: array[int]) -> bytes:
    # The thread may add more meanwhile, as with events.
    taken = rows.tobytes()
    del rows[: len(taken) // rows.itemsize]
    return taken


LOOKS_PER_HANDOVER = 2
"""Number of looks at threads between two handovers, 0.1 s: a killed program loses no more. Each handover
costs about 0.1 ms."""
JOIN_AFTER_S, LATE_JOIN_AFTER_S = 0.05, 1.0
"""Time from the first record of a child until it asks for a stream: for the ``EARLY_CHILDREN`` first ones of
its parent, and for all others. A stream costs some 20 ms of a core; a program may fork thousands of children
that live no longer."""
EARLY_CHILDREN = 64
LONGEST_END_S = 60.0
"""Longest wait for the end of the stream, after which the program ends without it."""
LARGEST = 2**63 - 1

_CLOSED = "the program has closed the descriptor of its trace, and there was no way to open it anew"


def clock_offset_ns() -> int:
    """Return the offset from the monotonic clock to the Unix epoch, in ns."""
    readings = []
    for _ in range(10):
        before, now, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        readings.append((after - before, now - (before + after) // 2))
    # The tightest readings count: a process that lost its core between two would be off by ms.
    return min(readings)[1]


def _allow_forks() -> None:
    """Suppress Python's warning of a fork beside threads: a forked process needs nothing of our thread."""
    if sys.version_info >= (3, 12):
        import warnings

        warnings.filterwarnings("ignore", "This process .*is multi-threaded", DeprecationWarning)


def _nothing() -> None: ...


class _Life:
    """Object among a thread's local values, which is destroyed when the thread ends."""

    __slots__ = ("__weakref__",)


class Recorder:
    """Recording of one stream, from its construction to ``stop``.

    No thread of the program ever waits for it: names get their numbers and rows enter their
    buffers without locks.

    Parameters
    ----------
    family
        Family that the process belongs to.
    select
        Timers and counters to leave out; None to take it from the environment when it is needed.
    parent_pid
        Process id of the member that forked or started this process; 0 for the family's first.
    is_forked
        Whether the process began inside calls of its parent, or of its own before the recording.
    is_attached
        Whether the program ran already when its recording began.
    older_siblings
        Number of processes that its parent had forked before.
    """

    def __init__(
        self,
        family: Family,
        select: TimerFilter | None,
        parent_pid: int = 0,
        is_forked: bool = False,
        older_siblings: int = 0,
        is_attached: bool = False,
    ) -> None:
        self.is_recording = True
        self.is_attached = is_attached
        self.family = family
        self.rings = ""
        """Folder into which a recorder in this process writes; empty if none is loaded."""
        self.files = SourceFiles(family.folder)
        self.children = StartedPrograms()
        self.when_lost: Callable[[], None] = _nothing
        """Function that is called if the writer ends before the program, so that rows are taken no more."""
        self.before_handover: Callable[[], None] = _nothing
        """Function that is called before each handover, in our own thread."""
        self.pid = os.getpid()
        self._parent_pid = parent_pid
        self._join_after_s = JOIN_AFTER_S if older_siblings < EARLY_CHILDREN else LATE_JOIN_AFTER_S
        self.is_forked = is_forked
        self.select = select
        self.of_thread = threading.local()
        """Values of the calling thread: once it has a buffer, ``extend`` adds events to that."""
        self._main = ThreadBuffer(0, threading.main_thread, self._new_number)
        self._buffers = [self._main]
        self._thread_numbers = itertools.count(1)
        self._free_numbers: deque[int] = deque()
        self._timers: dict[str, int] = {}
        self._timer_numbers = itertools.count(ROOT_TIMER + 1)
        self._counters: dict[str, int] = {TIME_COUNTER_NAME: 0}
        self._counter_numbers = itertools.count(1)
        self._handed_over = {"timers": 0, "counters": 0}
        self._main.events.extend((ROOT_TIMER << 1 | ENTRY, time.perf_counter_ns()))
        self._metadata: dict[tuple[int, str], str] = {}
        self._looks: StillThreads | None = StillThreads(self)
        self._connection: Connection | None = None
        self._not_begun = [True]
        # Not an event: a signal's handler may stop the recording while its own thread does.
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._has_ended = threading.Lock()

    def join(self) -> None:
        """Connect and begin to hand over at once, and not only when there is something to record.

        Raises
        ------
        OSError, RuntimeError
            There is no writer server, or no thread can be started.
        """
        self._connect()
        # A program may end before our thread gets its turn. A writer that has ended says why later.
        with suppress(OSError):
            self._hand_over(is_last=False)
        self._begin()

    def buffer(self) -> ThreadBuffer:
        """Return the buffer of the calling thread."""
        try:
            buffer: ThreadBuffer = self.of_thread.buffer
        except AttributeError:
            buffer = self.of_thread.buffer = self._new_buffer()
            self.of_thread.extend = buffer.events.extend
            watch_greenlets(self)
        return buffer

    def _new_buffer(self) -> ThreadBuffer:
        # Not by threading.current_thread: that makes an object for each thread that threading has not begun.
        if _thread.get_ident() == threading.main_thread().ident:
            return self._main
        number = self._free_number()
        self.of_thread.life = life = _Life()
        buffer = ThreadBuffer(number, weakref.ref(life), self._new_number)
        self._buffers.append(buffer)
        # Many threads end before their rows are taken.
        self._note_name(buffer)
        return buffer

    def _free_number(self) -> int:
        try:
            return self._free_numbers.popleft()
        except IndexError:
            return next(self._thread_numbers)

    def _new_number(self) -> int:
        """Return the number of a further stack of the calling thread."""
        number = self._free_number()
        self._metadata[number, "tid"] = str(threading.get_native_id())
        return number

    def timer_code(self, name: str) -> int:
        """Return the code of the ENTRY of ``name`` (that of its EXIT is one higher), or ``SKIPPED``."""
        code = self._timers.get(name)
        if code is None:
            self._see_to_begin()
            allowed = self.selection().allows_timer(name)
            code = self._timers.setdefault(name, next(self._timer_numbers) << 1 if allowed else SKIPPED)
        return code

    def counter_number(self, name: str) -> int:
        """Return the number of the counter ``name``, or ``SKIPPED``."""
        number = self._counters.get(name)
        if number is None:
            self._see_to_begin()
            allowed = self.selection().allows_counter(name)
            number = self._counters.setdefault(name, next(self._counter_numbers) if allowed else SKIPPED)
        return number

    def comm(self, event_type: int, partner: int, tag: int, size_bytes: int) -> None:
        """Record a message of the calling thread."""
        if not self.is_recording:
            return
        self._see_to_begin()
        self.buffer().comms.extend((event_type, tag, partner, size_bytes, time.perf_counter_ns()))

    def count(self, name: str, value: float) -> None:
        """Record the value of a counter, whole and not negative as in TAU's layout."""
        if not self.is_recording:
            return
        number = self.counter_number(name)
        if number != SKIPPED:
            whole = int(min(max(0, value), LARGEST))
            self.buffer().counters.extend((number, whole, time.perf_counter_ns()))

    def describe(self, key: str, value: str) -> None:
        """Record metadata of the calling thread."""
        self._metadata[self.buffer().number, key] = value

    def _await_end(self, longest_s: float) -> None:
        if self._has_ended.acquire(timeout=longest_s):
            # For whoever else waits.
            self._has_ended.release()

    def describe_process(self, key: str, value: str) -> None:
        """Record metadata of the process."""
        self._metadata[0, key] = value

    def stop(self, longest_s: float) -> None:
        """Hand over the rest, and end; the family's first process waits until its stream is complete."""
        self.is_recording = False
        self._metadata[0, "Ending Timestamp"] = str(time.time_ns() // 1000)
        with suppress(RuntimeError):
            self._running.release()
        if not self._not_begun:
            self._await_end(longest_s)

    def abandon(self) -> None:
        """Stop using the stream in a forked child, and leave it as it is: it is its parent's."""
        self.is_recording = False
        if self._connection is not None:
            self._connection.close()

    def selection(self) -> TimerFilter:
        """Return which timers and counters are recorded; read from the environment at the first time."""
        if self.select is None:
            from chimbuko.capture.trace.tausettings import TimerFilter, WriterSettings
            from chimbuko.core.errors import ChimbukoError

            try:
                self.select = WriterSettings.from_environment(os.environ).select
            except ChimbukoError:
                # The family's first process could read it: the program has changed the environment since.
                self.select = TimerFilter()
        return self.select

    def _see_to_begin(self) -> None:
        if self._not_begun:
            with suppress(RuntimeError):
                self._begin()

    def _begin(self) -> None:
        try:
            self._not_begun.pop()
        except IndexError:
            return
        self._has_ended.acquire()
        _allow_forks()
        # A program may block signals in its threads and wait for them: our thread must not get them. It
        # inherits the signals that its creator blocks.
        blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            # Not a threading.Thread: that would be among the program's threads, and be recorded.
            _thread.start_new_thread(self._feed, ())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)

    def _connect(self) -> None:
        with LOADING:
            from chimbuko.instrument.tracer.connection import Connection
            from chimbuko.instrument.tracer.places import Launched, launched
            from chimbuko.instrument.tracer.processmetadata import describe_process

        offset_ns = clock_offset_ns()
        start_us = (self._main.events[1] + offset_ns) // 1000
        self._metadata |= {(0, key): value for key, value in describe_process(start_us).items()}
        connection = Connection(self.family.address)
        said = launched(os.getpid(), os.getppid()) or Launched()
        family = self.family
        header = Header(family.program, family.rank, offset_ns, self._parent_pid, self.is_forked, said)
        connection.send(header, has_length=True)
        self._connection = connection

    def _feed(self) -> None:
        # Whoever looks at the process's threads knows by its name that it is none of the program's.
        with suppress(OSError), open(f"/proc/self/task/{_thread.get_native_id()}/comm", "w") as file:
            file.write("chimbuko")
        # What this thread calls is not recorded, whichever hook is installed.
        self.of_thread.extend = deque[int](maxlen=0).extend
        # Nobody takes what is counted here, such as the collection of garbage.
        self.of_thread.buffer = ThreadBuffer(-1, object, self._new_number)
        self.of_thread.greenlets = None
        is_first = self._connection is not None
        failure: Exception | None = None
        try:
            self._hand_over_until_stopped()
        except Exception as error:
            # Whatever it is, the program must not wait for the end of the stream, nor the writer for rows.
            failure = error
            self.is_recording = False
            self.when_lost()
        if self._connection is not None:
            if is_first:
                self._report(self._last_word(self._connection, failure))
            self._connection.close()
        self._has_ended.release()

    def _last_word(self, connection: Connection, failure: Exception | None) -> str:
        """Return how the stream has ended, by its writer where that has ended, too."""
        if connection.is_closed_by_program:
            return _CLOSED
        if isinstance(failure, TimeoutError):
            # The writer takes nothing, and says nothing.
            return ""
        if failure is not None and not isinstance(failure, OSError):
            return f"{type(failure).__name__}: {failure}"
        return connection.last_word()

    def _hand_over_until_stopped(self) -> None:
        is_ending = False
        if self._connection is None:
            # A process that ends within moments, or becomes another program, is not worth a stream.
            is_ending = self._running.acquire(timeout=self._join_after_s)
            if is_ending and not self._has_annotations():
                return
            self._connect()
            self._hand_over(is_last=False)
        for number in itertools.count(1):
            if is_ending or self._running.acquire(timeout=LOOK_PERIOD_S):
                break
            self._look()
            if number % LOOKS_PER_HANDOVER == 0:
                kill_those_left()
                self._hand_over(is_last=False)
        self._hand_over(is_last=True)

    def _look(self) -> None:
        """Look at threads that stand still; never again where that fails, in a program nobody foresaw."""
        try:
            if self._looks is not None:
                self._looks.look(self._buffers)
        except Exception as error:
            self._looks = None
            print(
                f"chimbuko: rank {self.family.rank}: what its threads wait for is not recorded any more: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )

    def _has_annotations(self) -> bool:
        """Whether only what the program names is recorded, and it is one of few: then all of it matters."""
        return self.family.include is None and self._join_after_s == JOIN_AFTER_S

    def _report(self, last_word: str) -> None:
        how, _, note = last_word.partition("\n")
        if how != COMPLETE:
            reason = how or "the process that writes its stream waited too long for a reader, or was killed"
            note = f"rank {self.family.rank} is not traced to its end: {reason}"
        if note:
            print(f"chimbuko: {note}", file=sys.stderr)

    def _hand_over(self, is_last: bool) -> None:
        self.before_handover()
        # Read before rows are taken: rows that come meanwhile belong to the next step.
        complete_until_ns = time.perf_counter_ns()
        threads = self._take_rows()
        # Names are taken after rows: a name has its number before the first row that uses it.
        handover = Handover(
            complete_until_ns=complete_until_ns,
            threads=threads,
            timers={code >> 1: name for name, code in self._new("timers", self._timers)},
            counters={number: name for name, number in self._new("counters", self._counters)},
            metadata=self._take_metadata(),
            children=self.children.take(),
            is_last=is_last,
            rings=self.rings,
        )
        assert self._connection is not None
        self._connection.send(handover, while_waiting=self._pack)

    def _pack(self) -> None:
        """Pack all buffers, so that a program whose rows are not taken needs little memory for them."""
        for buffer in self._buffers.copy():
            buffer.pack()

    def _take_rows(self) -> list[ThreadRows]:
        rows = []
        for buffer in self._buffers.copy():
            # Asked before the rows are taken: rows that a living thread adds later are taken next time.
            has_ended = buffer.owner() is None
            taken = buffer.take()
            if taken.events or taken.comms or taken.counters:
                rows.append(taken)
                self._describe(buffer)
            self._note_name(buffer)
            if has_ended and buffer is not self._main:
                self._buffers.remove(buffer)
                self._free_numbers.extend((buffer.number, *buffer.lanes.numbers))
        return rows

    def _describe(self, buffer: ThreadBuffer) -> None:
        """Say which thread this is, now that it has rows: the time of one without is none of the trace's."""
        if not buffer.is_described and buffer is not self._main:
            self._metadata[buffer.number, "tid"] = str(buffer.native_id)
        buffer.is_described = True

    def _note_name(self, buffer: ThreadBuffer) -> None:
        """Note the name that the program has given to a thread, also one that it gives it later."""
        # Not threading.enumerate: that takes a lock, which a thread that forks may hold.
        thread = getattr(threading, "_active", {}).get(buffer.ident)
        if thread is not None and thread.name != buffer.name:
            buffer.name = thread.name
            self._metadata[buffer.number, THREAD_NAME] = buffer.name

    def _new(self, kind: str, names: dict[str, int]) -> list[tuple[str, int]]:
        """Return the names that came since the last handover; dictionaries keep their order."""
        first, self._handed_over[kind] = self._handed_over[kind], len(names)
        fresh = list(names.copy().items())[first : self._handed_over[kind]]
        return [(name, number) for name, number in fresh if number != SKIPPED]

    def _take_metadata(self) -> dict[tuple[int, str], str]:
        taken = self._metadata.copy()
        for key, value in taken.items():
            if self._metadata.get(key) == value:
                self._metadata.pop(key, None)
        return taken


exclude(Recorder._feed.__code__)
