"""Keeper of the profiling hooks of all threads, which puts back those that are gone, and notes how long."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns

from chimbuko.instrument.hooks.codes import FOUND
from chimbuko.instrument.hooks.threadstate import ThreadState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chimbuko.instrument.hooks.functions import Buffer
    from chimbuko.instrument.hooks.threadhook import ThreadHook

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
