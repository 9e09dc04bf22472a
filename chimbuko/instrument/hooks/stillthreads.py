"""Looks at threads whose call goes on for long without running: where they stand, and for whom."""

from __future__ import annotations

import _thread
import os
import re
import sys
import time
from itertools import islice, pairwise

import chimbuko
from chimbuko.core.pauses import Pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Mapping
    from types import FrameType
    from typing import Protocol

    class LookedAt(Protocol):
        """Rows that a thread has recorded."""

        ident: int
        native_id: int
        events: list[int]
        """Code and time of each event that nobody has taken."""
        counters: array[int]

        @property
        def recorded(self) -> int:
            """Number of values of events that were ever recorded."""

    class LookRecorder(Protocol):
        """Recorder of the counters of threads."""

        def counter_number(self, name: str) -> int:
            """Return the number of a counter; negative where it is not recorded."""


LOADING = _thread.RLock()
"""Lock of whoever loads modules in a thread of ours, and of whoever forks: a child that is forked meanwhile
would have them half loaded, and wait for ever where it imports one of them."""
LOOK_PERIOD_S = 0.05
"""Time between two looks. Each takes Python's lock from who has it, which costs that 20 to 50 µs: 0.1 % of
its time."""
MOST_THREADS = 64
LEAST_NS = 20_000_000
"""Minimum time since the last event of a thread: a look cannot tell of slow calls that are shorter."""
STILL_SHARE = 0.3
"""Share of that time for which a thread must not have run."""
CONTENDING_SHARE = 0.1
"""Share of the time between two looks for which a thread has run that wanted to all the time: Python gives
the interpreter to another one every 5 ms. Who stands in one place has run for less."""
RUNNING_SHARE, ALONE = 0.15, 1.15
"""Share of that time for which other threads must have run to have kept it from the interpreter, and for
which all may have run together: more is without the interpreter, as in a library."""
LATE_NS = 80_000_000
"""Time between two looks that is so long that others have kept our thread from the interpreter, too."""
MOST_LOOKS = 32
"""Number of looks at a thread in one call that are recorded, 1.6 s: threads may wait for work for hours, and
a rank that hangs is noticed because its stream falls silent."""
_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_OURS = os.path.dirname(chimbuko.__file__) + "/"
_LIBRARY = os.path.dirname(os.__file__) + "/", _OURS
"""Folders of files that are not the program's: those of Python, and ours."""


class _Look:
    """A thread at one moment."""

    __slots__ = ("cpu_ns", "recorded", "still")

    def __init__(self, cpu_ns: int, recorded: int, still: int) -> None:
        self.cpu_ns = cpu_ns
        self.recorded = recorded
        self.still = still
        """Number of looks since it has recorded anything."""


class StillThreads:
    """Looks at the threads of a process, from a thread of ours.

    Only a call in which nothing was recorded for ``LEAST_NS`` is looked into: of fast calls nothing is asked
    but whether there were any.
    """

    def __init__(self, recorder: LookRecorder) -> None:
        self._recorder = recorder
        self._looks: dict[int, _Look] = {}
        self._last_ns = time.perf_counter_ns()

    def look(self, buffers: Iterable[LookedAt]) -> None:
        """Look at all threads once."""
        now_ns = time.perf_counter_ns()
        elapsed_ns, self._last_ns = now_ns - self._last_ns, now_ns
        before, self._looks = self._looks, {}
        ran_ns: dict[int, int] = {}
        still: list[tuple[LookedAt, int]] = []
        kept: list[LookedAt] = []
        for buffer in list(buffers)[:MOST_THREADS]:
            cpu_ns = _cpu_ns(buffer.native_id)
            if cpu_ns is None:
                continue
            kept.append(buffer)
            last = before.get(buffer.ident)
            ran_ns[buffer.ident] = cpu_ns - (last.cpu_ns if last else 0)
            looks = last.still + 1 if last is not None and buffer.recorded == last.recorded else 0
            self._looks[buffer.ident] = _Look(cpu_ns, buffer.recorded, looks)
            open_ns = min(elapsed_ns, now_ns - (buffer.events[-1] if buffer.events else 0))
            # What a thread without calls stands in would lie in no call, and be told as lost.
            if buffer.recorded and open_ns >= LEAST_NS and looks <= MOST_LOOKS:
                still.append((buffer, open_ns))
        is_late = elapsed_ns >= LATE_NS and len(ran_ns) > 1
        if not still and not is_late:
            return
        frames = sys._current_frames()
        noted = {
            buffer.ident
            for buffer, open_ns in still
            if buffer.ident in frames and self._note(buffer, open_ns, elapsed_ns, frames, ran_ns)
        }
        for buffer in kept if is_late else ():
            if buffer.ident not in noted:
                self._note_gap(buffer, before.get(buffer.ident), elapsed_ns, frames, ran_ns)

    def _note(
        self,
        buffer: LookedAt,
        open_ns: int,
        elapsed_ns: int,
        frames: Mapping[int, FrameType],
        ran_ns: Mapping[int, int],
    ) -> bool:
        """Note why a call that goes on did not run since the last look; return whether that is known."""
        own_ns = ran_ns[buffer.ident]
        waited_ns = waited_for_interpreter_ns(open_ns, elapsed_ns, own_ns, sum(ran_ns.values()) - own_ns)
        if own_ns < CONTENDING_SHARE * elapsed_ns and open_ns - own_ns >= STILL_SHARE * open_ns:
            others = [frame for ident, frame in frames.items() if ident != buffer.ident]
            kind, what = _standing(frames[buffer.ident], others)
            if not waited_ns or kind is Pause.LOCK:
                self._count(buffer, kind, what, open_ns - own_ns, self._last_ns)
                return True
        if waited_ns:
            what = _running(buffer, frames, ran_ns)
            self._count(buffer, Pause.INTERPRETER, what, waited_ns, self._last_ns)
        return waited_ns > 0

    def _note_gap(
        self,
        buffer: LookedAt,
        last: _Look | None,
        elapsed_ns: int,
        frames: Mapping[int, FrameType],
        ran_ns: Mapping[int, int],
    ) -> None:
        """Note how long a call that is over waited for who has made this look late, too."""
        new = buffer.events[-(buffer.recorded - last.recorded) :] if last is not None else buffer.events
        times_ns = [self._last_ns - elapsed_ns, *new[1::2]]
        if len(times_ns) < 2:
            return
        gap_ns, until_ns = max((later - earlier, later) for earlier, later in pairwise(times_ns))
        own_ns = ran_ns[buffer.ident]
        waited_ns = waited_for_interpreter_ns(gap_ns, elapsed_ns, own_ns, sum(ran_ns.values()) - own_ns)
        if gap_ns >= LEAST_NS and waited_ns:
            # Within the call that the next event ends.
            what = _running(buffer, frames, ran_ns)
            self._count(buffer, Pause.INTERPRETER, what, waited_ns, until_ns - 1_000)

    def _count(self, buffer: LookedAt, kind: Pause, what: str, length_ns: int, at_ns: int) -> None:
        number = self._recorder.counter_number(kind.counter(what))
        if number >= 0:
            buffer.counters.extend((number, length_ns // 1000, at_ns))


def waited_for_interpreter_ns(open_ns: int, elapsed_ns: int, own_ns: int, others_ns: int) -> int:
    """Return how long a thread has waited for others to give it the interpreter; 0 if it has not.

    Parameters
    ----------
    open_ns
        Time since its last event, or since the last look if that is less.
    elapsed_ns
        Time since the last look.
    own_ns, others_ns
        CPU time since then, of the thread and of the other ones.
    """
    is_alone = own_ns + others_ns <= ALONE * elapsed_ns
    if not is_alone or others_ns < RUNNING_SHARE * elapsed_ns:
        return 0
    if own_ns >= CONTENDING_SHARE * elapsed_ns:
        # Who has the interpreter may wait for a core, and so do all who wait for it.
        return open_ns * others_ns // (own_ns + others_ns)
    return max(0, open_ns - own_ns) if elapsed_ns >= LATE_NS else 0


def _standing(frame: FrameType, others: Iterable[FrameType]) -> tuple[Pause, str]:
    """Return where a thread stands: at a lock, or in a function of the library, or one that is no Python."""
    with LOADING:
        from chimbuko.instrument.hooks.heldlocks import acquired_in, holder

    outer, library = frame, ""
    while outer.f_code.co_filename.startswith(_LIBRARY) and outer.f_back is not None:
        if not outer.f_code.co_filename.startswith(_OURS):
            library = f"{outer.f_globals.get('__name__', '')}.{outer.f_code.co_qualname}"
        outer = outer.f_back
    acquired = acquired_in(outer)
    if acquired is not None:
        name, lock = acquired
        held_by = holder(lock, others)
        return Pause.LOCK, name if held_by is None else f"{name}, held by {_function(held_by)}"
    return Pause.STANDING, library or _called(outer) or _function(outer)


def _running(buffer: LookedAt, frames: Mapping[int, FrameType], ran_ns: Mapping[int, int]) -> str:
    """Return the function in which the other thread is that ran most."""
    running = max(frames.keys() & ran_ns.keys() - {buffer.ident}, key=lambda one: ran_ns[one], default=0)
    return _function(frames[running]) if running else "another thread"


def _function(frame: FrameType) -> str:
    """Return the name of the function of the program that a frame is of, or was called by."""
    while frame.f_code.co_filename.startswith((*_LIBRARY, "<")) and frame.f_back is not None:
        frame = frame.f_back
    module = os.path.basename(frame.f_code.co_filename).removesuffix(".py")
    return f"{module}.{frame.f_code.co_qualname}"


def _called(frame: FrameType) -> str:
    """Return the function that a frame calls, as its source has it; empty if that is not known."""
    with LOADING:
        import linecache

    at = frame.f_lasti // 2
    line, _, begin, _ = next(islice(frame.f_code.co_positions(), at, None), (None,) * 4)
    if line is None or begin is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename, line).encode()[begin:]
    found = _CALLED.match(source.decode(errors="replace"))
    return found[1] if found else ""


def _cpu_ns(tid: int) -> int | None:
    """Return the CPU time of a thread, which may have ended: the C library's way to its clock would crash."""
    try:
        return time.clock_gettime_ns((~tid << 3) | 6)
    except OSError:
        return None
