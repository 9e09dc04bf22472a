"""Watches processes and all that they start, period by period; of the past only sums are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.identity import Identity, family, read_identity, uses_openmp
from chimbuko.monitor.sampling.kinds import MAIN, SAMPLER, kind_of
from chimbuko.monitor.sampling.sample import Sample
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.span import Span


class Watch:
    """What these processes have done since it began. The process that watches is watched, too."""

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = list(roots)
        self._own = os.getpid()
        self._sampler = Sampler()
        self._last: Sample | None = None
        self._openmp: dict[int, tuple[int, bool]] = {}
        self.identities: dict[int, Identity] = {}
        """All processes that were ever seen, as they were first."""
        self.total: Span | None = None
        self.cost_us = 0
        """CPU time of all samples."""

    def step(self) -> Span | None:
        """Take a sample; the span since the one before it, None where it is the first."""
        pids = [pid for pid in family(self._roots) if pid != self._own and self._is_known(pid)]
        sample = self._sampler.sample([*pids, self._own])
        last, self._last = self._last, sample
        self.cost_us += sample.cost_us
        if last is None:
            return None
        span = difference(last, sample, self._kind)
        self.total = span if self.total is None else self.total.then(span)
        return span

    def close(self) -> None:
        """End it."""
        self._sampler.close()

    def move_to(self, core: int) -> None:
        """Let this process run on one core only."""
        os.sched_setaffinity(0, {core})

    def _is_known(self, pid: int) -> bool:
        if pid not in self.identities:
            identity = read_identity(pid)
            if identity is None:
                return False
            self.identities[pid] = identity
        return True

    def _kind(self, pid: int, tid: int, name: str, process_name: str) -> str:
        if pid == self._own:
            return SAMPLER
        kind = kind_of(pid, tid, name, process_name, openmp=False)
        if kind == MAIN or name != process_name or process_name.startswith("python"):
            return kind
        return kind_of(pid, tid, name, process_name, self._has_openmp(pid))

    def _has_openmp(self, pid: int) -> bool:
        """Looked up once for each number of threads: libraries are loaded when they are needed."""
        threads = sum(one.pid == pid for one in self._last.threads.values()) if self._last else 0
        if pid not in self._openmp or self._openmp[pid][0] != threads:
            self._openmp[pid] = (threads, uses_openmp(pid))
        return self._openmp[pid][1]


def last_core(masks: Iterable[Iterable[int]], allowed: Iterable[int]) -> int:
    """Where the sampler runs: the last core of the masks that it may use, or the last that it may use."""
    may = set(allowed)
    wanted = may & {cpu for mask in masks for cpu in mask}
    return max(wanted or may)
