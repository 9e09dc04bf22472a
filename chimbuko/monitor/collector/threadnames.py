"""Names of threads, which join their samples with calls. No I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.samples.nodebatch import ThreadName
from chimbuko.monitor.sampling.sample import ThreadCounters


class ThreadNames:
    """Names of all threads that batches to come may hold, also of those that have ended meanwhile."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        """Number of each thread in the trace, by process and thread."""
        self._names: dict[int, tuple[Watched, str, str]] = {}
        """Process, name and cores of each thread."""

    def number(self, pid: int, tid: int, thread: int) -> None:
        """Note a thread's number in the trace."""
        self._numbers[pid, tid] = thread

    def note(self, watched: Mapping[int, Watched], threads: Mapping[int, ThreadCounters]) -> None:
        """Note the threads of watched processes as they are now."""
        for tid, one in threads.items():
            if one.pid in watched:
                self._names[tid] = watched[one.pid], one.name, one.cpus

    def keep(self, tids: Container[int]) -> None:
        """Forget all other threads."""
        self._names = {tid: name for tid, name in self._names.items() if tid in tids}

    def of(self, tids: Iterable[int]) -> list[ThreadName]:
        """Return the names of threads, as far as they are known, in the order of their numbers."""
        return [self._name(tid, *self._names[tid]) for tid in sorted(tids) if tid in self._names]

    def _name(self, tid: int, watched: Watched, name: str, cpus: str) -> ThreadName:
        thread = self._numbers.get((watched.pid, tid), -1)
        return ThreadName(watched.pid, tid, name, watched.program, watched.rank, thread, cpus)
