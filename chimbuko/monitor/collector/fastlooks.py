"""Fast looks at the threads that run, and at other processes that may take their cores."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator

from chimbuko.monitor.collector.batchmaker import Costs
from chimbuko.monitor.collector.fastring import FastRing, ThreadLook
from chimbuko.monitor.collector.keptrows import KeptRows
from chimbuko.monitor.collector.lookpace import Look, LookPace
from chimbuko.monitor.collector.lossfinder import Stretch
from chimbuko.monitor.collector.threadreading import Reading
from chimbuko.monitor.collector.unwatched import Others
from chimbuko.monitor.samples.nodebatch import Awaited, Rows
from chimbuko.monitor.sampling.procreader import ProcReader


class FastLooks:
    """Looks at some threads, at the pace of a ``LookPace``.

    Parameters
    ----------
    rows
        Rows of other processes go there; those of threads stay here until they are wanted.
    costs
        CPU time of the looks is added to them.
    has_others
        Whether other processes are looked at, too.
    """

    def __init__(self, rows: KeptRows, costs: Costs, has_others: bool) -> None:
        self._rows = rows
        self._costs = costs
        self._has_others = has_others
        self._files = ProcReader()
        self._ring = FastRing(self._files)
        self._others = Others(self._files)
        self._pace = LookPace()
        self._threads: dict[int, int] = {}
        """Threads that are looked at, each with its process."""

    @property
    def next_s(self) -> float:
        """Time in seconds until the next look."""
        return self._pace.next_s

    def add(self, pid: int) -> None:
        """Look at the main thread of a process from now on, at the pace of ranks that run."""
        self._threads[pid] = pid
        self._pace.note_running(True)

    def remember(self, readings: Iterable[Reading]) -> None:
        """Take in what was read before there were looks, and look at these threads from now on."""
        self._threads |= self._ring.remember(readings)
        self._pace.note_running(bool(self._threads))

    def choose(self, threads: dict[int, int], is_running: bool) -> None:
        """Look at these threads from now on, each with its process; ``is_running`` where ranks run at all."""
        for tid in self._threads.keys() - threads.keys():
            self._ring.forget(tid)
        self._threads = threads
        self._pace.note_running(is_running)

    def look(self, now_us: int, watched: Collection[int]) -> None:
        """Look at the threads, and at processes that are not ``watched`` where they are due."""
        if not self._threads:
            return
        began_ns = time.thread_time_ns()
        has_waited = self._ring.read(self._threads)
        cost_us = _cost_us(began_ns)
        self._costs.fast_us += cost_us
        look = self._pace.ranks_looked(now_us, has_waited, cost_us)
        if not self._has_others or look is Look.NOBODY:
            return
        began_ns = time.thread_time_ns()
        if look is Look.ALL:
            self._rows.put("others", self._others.look(now_us, watched))
            cost_us = _cost_us(began_ns)
            self._costs.period_us += cost_us
            self._pace.all_looked(now_us, cost_us)
        else:
            self._rows.put("others", self._others.look_again(now_us, watched))
            cost_us = _cost_us(began_ns)
            self._costs.fast_us += cost_us
            self._pace.running_looked(now_us, cost_us)

    def latest(self) -> Iterator[ThreadLook]:
        """Yield what was seen of each thread in the last look; ``thread`` is the kernel's id."""
        return self._ring.latest()

    def stretches(self) -> Iterator[tuple[int, Stretch]]:
        """Return what each thread did from look to look, over all looks since the last call."""
        return self._ring.stretches()

    def take(self, begin_us: int, end_us: int) -> Rows:
        """Return the THREAD rows of an interval that were not taken before."""
        return self._ring.take(begin_us, end_us)

    def awaited(self, begin_us: int, end_us: int) -> Iterator[Awaited]:
        """Yield the files and children that threads slept for in an interval."""
        return self._ring.awaited(begin_us, end_us)

    def close(self) -> None:
        """Close all files."""
        self._ring.close()
        self._files.close()


def _cost_us(began_ns: int) -> int:
    return (time.thread_time_ns() - began_ns) // 1000
